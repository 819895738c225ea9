#!/bin/sh
# Mounts an image in an emulated Linux and runs a script there, its directory the volume's root: prints what the script
# printed between SCRIPT-BEGIN and SCRIPT-END, MOUNT-FAILED if there was nothing to run it in, UNMOUNTED if the volume
# was unmounted cleanly after it, and what the kernel had to say about the file system.
#
# Needs qemu-system-x86, busybox-static, cpio and xz-utils, and a Debian kernel package of 6.8 or later (bookworm-backports
# has one) unpacked at $PLATTER_KERNEL, by default /var/lib/platter-kernel.
set -eu
system=$1
options=$2
image=$3
seconds=$4
kernel=${PLATTER_KERNEL:-/var/lib/platter-kernel}
version=$(ls "$kernel/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/mnt" "$work/root/modules"
cp /bin/busybox "$work/root/bin/"
cat > "$work/root/script"
modules="virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk nls_utf8 $system"
for module in $modules; do
    file=$(find "$kernel/lib/modules/$version" -name "$module.ko*" | head -n 1)
    case $file in
        '') ;; # built in
        *.xz) xz -dc "$file" > "$work/root/modules/$module.ko" ;;
        *) cp "$file" "$work/root/modules/$module.ko" ;;
    esac
done
cat > "$work/root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
# Twice: which of virtio and virtio_ring needs the other is not the same in all kernels.
for module in $modules $modules; do
    [ -f /modules/\$module.ko ] && insmod /modules/\$module.ko 2> /dev/null
done
if mount -t $system -o $options /dev/vda /mnt && cd /mnt; then
    echo SCRIPT-BEGIN
    sh /script
    echo SCRIPT-END
    cd /
    sync
    umount /mnt && echo UNMOUNTED
else
    echo MOUNT-FAILED
fi
echo MESSAGES
dmesg | grep -iE '$system|vda|BUG|WARN' | grep -v 'Kernel command line'
poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"
# An emulator that waits for a processor may miss the moment in which the kernel tests its timer, which then gives up.
timeout "$seconds" qemu-system-x86_64 -m 512 -nographic -no-reboot -net none \
    -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1 no_timer_check' \
    -drive "file=$image,format=raw,if=virtio" 2>&1 | tr -d '\r'

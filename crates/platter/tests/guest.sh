#!/bin/sh
# Boots an emulated Linux whose root directory is the ext4 on the disk at an address of QEMU, and prints what it prints.
#
# Needs qemu-system-x86, busybox-static, cpio and xz-utils, and a Debian kernel package of 6.8 or later unpacked at
# $PLATTER_KERNEL, by default /var/lib/platter-kernel.
set -eu
disk=$1
kernel=${PLATTER_KERNEL:-/var/lib/platter-kernel}
version=$(ls "$kernel/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/disk" "$work/root/modules"
cp /bin/busybox "$work/root/bin/"
modules="virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk"
modules="$modules crc16 crc32c_generic libcrc32c mbcache jbd2 ext4"
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
mount -t devtmpfs dev /dev
# Twice: which of virtio and virtio_ring needs the other is not the same in all kernels.
for module in $modules $modules; do
    [ -f /modules/\$module.ko ] && insmod /modules/\$module.ko 2> /dev/null
done
mount -t ext4 /dev/vda /disk || poweroff -f
exec switch_root /disk /sbin/init
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"
# An emulator that waits for a processor may miss the moment in which the kernel tests its timer, which then gives up.
timeout --foreground 600 qemu-system-x86_64 -m 512 -nographic -no-reboot -net none \
    -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1 no_timer_check' \
    -drive "file=$disk,format=raw,if=virtio,discard=unmap" 2>&1

#!/bin/sh
# Runs a script in an emulated Linux that has dm-crypt and Debian's cryptsetup: the images are /dev/vda, /dev/vdb and so on there,
# and the files of a directory are in /keys. Prints what the script printed between SCRIPT-BEGIN and SCRIPT-END, and what the
# kernel had to say.
#
# Needs cryptsetup-bin, qemu-system-x86, busybox-static, cpio and xz-utils, and a Debian kernel package of 6.8 or later unpacked at
# $PLATTER_KERNEL, by default /var/lib/platter-kernel.
set -eu
keys=$1
shift
PATH=$PATH:/usr/sbin:/sbin
kernel=${PLATTER_KERNEL:-/var/lib/platter-kernel}
version=$(ls "$kernel/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/run" "$work/root/mnt" \
    "$work/root/modules" "$work/root/keys"
cp /bin/busybox "$work/root/bin/"
cp -R "$keys/." "$work/root/keys/"
# The program with the libraries that it names, where the loader looks for them.
cryptsetup=$(command -v cryptsetup)
cp "$cryptsetup" "$work/root/bin/cryptsetup"
for library in $(ldd "$cryptsetup" | grep -o '/[^ ]*'); do
    mkdir -p "$work/root$(dirname "$library")"
    cp -L "$library" "$work/root$library"
done
cat > "$work/root/script"
modules="virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk nls_utf8 nls_cp437 nls_ascii fat vfat exfat ntfs3"
modules="$modules dax dm-mod dm-zero gf128mul xts dm-crypt"
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
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# Twice: which of virtio and virtio_ring needs the other is not the same in all kernels.
for module in $modules $modules; do
    [ -f /modules/\$module.ko ] && insmod /modules/\$module.ko 2> /dev/null
done
# There is no udev that would make the nodes and answer.
export DM_DISABLE_UDEV=1
echo SCRIPT-BEGIN
sh /script
echo SCRIPT-END
dmesg | grep -iE 'ntfs3|exfat|fat-fs|device-mapper|crypt|BUG|WARN' | grep -v 'Kernel command line'
poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"
drives=
for image in "$@"; do
    drives="$drives -drive file=$image,format=raw,if=virtio"
done
# An emulator that waits for a processor may miss the moment in which the kernel tests its timer, which then gives up. The directories
# of tests have no spaces in their names.
# shellcheck disable=SC2086
timeout 600 qemu-system-x86_64 -m 512 -nographic -no-reboot -net none \
    -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1 no_timer_check' \
    $drives 2>&1 | tr -d '\r'

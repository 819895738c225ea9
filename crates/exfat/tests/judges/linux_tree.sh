#!/bin/sh
# Prints every file and directory of an exFAT image, as Linux reads it in an emulated machine: "d PATH" or
# "f SIZE SHA256 PATH" between TREE-BEGIN and TREE-END, then what the kernel had to say.
#
# Needs qemu-system-x86, busybox-static, cpio and xz-utils, and a Debian kernel package of 6.8 or later (bookworm-backports
# has one) unpacked at $PLATTER_KERNEL, by default /var/lib/platter-kernel.
set -eu
image=$1
kernel=${PLATTER_KERNEL:-/var/lib/platter-kernel}
version=$(ls "$kernel/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/mnt" "$work/root/modules"
cp /bin/busybox "$work/root/bin/"
modules='virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk nls_utf8 exfat'
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
mount -t exfat -o ro,iocharset=utf8 /dev/vda /mnt && cd /mnt || { echo MOUNT-FAILED; dmesg | tail -n 20; poweroff -f; }
echo TREE-BEGIN
find . -mindepth 1 -type d | sed 's|^[.]|d |'
find . -type f | while IFS= read -r path; do
    sum=\$(sha256sum "\$path")
    echo "f \$(stat -c %s "\$path") \${sum%% *} \${path#.}"
done
echo TREE-END
dmesg | grep -i exfat
poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"
timeout 600 qemu-system-x86_64 -m 512 -nographic -no-reboot -net none \
    -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1' \
    -drive "file=$image,format=raw,if=virtio,readonly=on" 2>&1 | tr -d '\r'

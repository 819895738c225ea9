# Installs the command from the sources: `brew install --formula ./platterfs.rb`.
class Platterfs < Formula
  desc "ReFS, NTFS, exFAT and FAT volumes, and a lab that compares their speed"
  homepage "@BASE@"
  url "@BASE@/platter-@VERSION@.tar.gz"
  sha256 "@SOURCE_SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  on_linux do
    # Its fusermount3 mounts volumes for users other than root.
    depends_on "libfuse"
  end

  def install
    system "cargo", "install", "--features", "parquet", *std_cargo_args(path: "crates/platter")
    system bin/"platter", "man", man1
    generate_completions_from_executable(bin/"platter", "completions", shells: [:bash, :zsh, :fish])
  end

  test do
    (testpath/"list.txt").write "one\n"
    system bin/"platter", "mkfs", "ntfs", "disk.img", "--size", "64M"
    system bin/"platter", "cp", "list.txt", "disk.img:/list.txt"
    assert_equal "one\n", shell_output("#{bin}/platter cat disk.img:/list.txt")
    system bin/"platter", "check", "disk.img"
  end
end

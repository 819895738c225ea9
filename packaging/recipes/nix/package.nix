# The command from the sources: `nix-build -E 'with import <nixpkgs> { }; callPackage ./package.nix { }'`, with Cargo.lock of the
# sources beside this file. The flake of the sources gives its own tree, version and lock file.
{
  lib,
  rustPlatform,
  fetchurl,
  installShellFiles,
  version ? "@VERSION@",
  lockFile ? ./Cargo.lock,
  src ? fetchurl {
    url = "@BASE@/platter-@VERSION@.tar.gz";
    sha256 = "@SOURCE_SHA256@";
  },
}:

rustPlatform.buildRustPackage {
  pname = "platterfs";
  inherit version src;

  cargoLock = { inherit lockFile; };
  buildAndTestSubdir = "crates/platter";
  buildFeatures = [ "parquet" ];
  # The tests need FUSE, root and other projects' programs.
  doCheck = false;

  nativeBuildInputs = [ installShellFiles ];

  # mount(8), umount(8), mkfs(8) and fsck(8) look for the links.
  postInstall = ''
    for helper in mount.platter mount.fuse.platter umount.platter umount.fuse.platter mkfs.platter fsck.platter fsck.fuse.platter; do
      ln -s platter "$out/bin/$helper"
    done
    mkdir manual
    "$out/bin/platter" man manual
    installManPage manual/*
    for shell in bash zsh fish; do
      "$out/bin/platter" completions "$shell" > "platter.$shell"
      installShellCompletion "platter.$shell"
    done
  '';

  meta = {
    description = "ReFS, NTFS, exFAT and FAT volumes, and a lab that compares their speed";
    license = with lib.licenses; [
      mit
      asl20
    ];
    mainProgram = "platter";
    platforms = lib.platforms.linux;
  };
}

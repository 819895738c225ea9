# `nix run . -- help`, `nix build`, `nix profile install .`, and a shell to work on the sources: `nix develop`.
{
  description = "ReFS, NTFS, exFAT and FAT volumes, and a lab that compares their speed";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      manifest = builtins.fromTOML (builtins.readFile ./Cargo.toml);
      platter =
        packages:
        packages.callPackage ./packaging/recipes/nix/package.nix {
          src = self;
          lockFile = ./Cargo.lock;
          version = manifest.workspace.package.version;
        };
    in
    {
      packages = each (packages: {
        default = platter packages;
      });
      devShells = each (packages: {
        default = packages.mkShell {
          packages = [
            packages.cargo
            packages.clippy
            packages.rustc
            packages.rustfmt
          ];
        };
      });
    };
}

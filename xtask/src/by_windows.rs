//! File systems that Windows makes for a comparison, with a program in the place of Windows' `diskpart`, which Wine lacks.

use crate::Outcome;
use crate::command::{run, text, write};
use crate::windows::{Room, expect, walked};
use std::fs;

/// Carries out a script as far as the comparison notices: a virtual disk is a file with its drive letter in it, and the drive is
/// a folder beside it.
const DISKPART: &str = r#"
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// Wine lists the drives that DefineDosDevice makes, and finds files on those that are links in its own directory.
static void link_of(const char *option, const char *folder, const char *drive) {
    char command[1400];
    STARTUPINFOA start = {sizeof start};
    PROCESS_INFORMATION child;
    snprintf(command, sizeof command, "Z:\\bin\\%s %s %s/dosdevices/%c:", option, folder, getenv("WINEPREFIX"),
             drive[0] | 32);
    for (char *at = command + 7; *at; at++) if (*at == '\\') *at = '/';
    if (!CreateProcessA(NULL, command, NULL, NULL, 0, 0, NULL, NULL, &start, &child)) exit(4);
    Sleep(500);
}
static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) exit(4);
    fputs(text, file);
    fclose(file);
}
int main(int count, char **arguments) {
    char line[1024], disk[512] = "", drive[3] = "?:", folder[520];
    FILE *script = count == 3 && !strcmp(arguments[1], "/s") ? fopen(arguments[2], "r") : NULL;
    if (!script) return 3;
    while (fgets(line, sizeof line, script)) {
        char *quote = strchr(line, '"'), *letter = strstr(line, "letter=");
        if (quote) sscanf(quote, "\"%511[^\"]", disk);
        snprintf(folder, sizeof folder, "%s.d", disk);
        if (!strncmp(line, "create vdisk", 12)) put(disk, "?");
        if (!strncmp(line, "format", 6)) printf("%s", line);
        if (letter) {
            drive[0] = letter[7];
            CreateDirectoryA(folder, NULL);
            if (!DefineDosDeviceA(0, drive, folder)) return 4;
            link_of("ln -sfn", folder + 2, drive);
            put(disk, drive);
        }
        if (!strncmp(line, "detach", 6)) {
            FILE *file = fopen(disk, "r");
            if (!file) return 4;
            drive[0] = (char)fgetc(file);
            fclose(file);
            DefineDosDeviceA(DDD_REMOVE_DEFINITION, drive, NULL);
            link_of("rm -f", "", drive);
        }
    }
    return 0;
}
"#;

/// Two of them are made, measured and removed; without the program, the sentence says what is missing.
pub(crate) fn judge(room: &Room) -> Outcome {
    let what = ["compare", "--targets", "raw,windows-ntfs,windows-exfat", "--workloads", "two.fio"];
    let how = ["--span", "16M", "--time", "1s", "--out", "made"];
    let compare = [&what[..], &how].concat();
    let said = room.ends(&compare, 2)?;
    expect(said.contains("diskpart is not there"), || format!("without diskpart: {said}"))?;
    let system = room.prefix.join("drive_c/windows/system32");
    let (source, program) = (system.join("diskpart.c"), system.join("diskpart.exe"));
    write(&source, DISKPART)?;
    run("x86_64-w64-mingw32-gcc", &["-o", text(&program)?, text(&source)?], &[])?;
    room.ends(&compare, 0)?;
    let report = fs::read_to_string(room.at.join("made/report.json")).map_err(|error| error.to_string())?;
    for title in ["NTFS of Windows, 4 KiB clusters", "exFAT of Windows"] {
        expect(report.contains(title), || format!("{title} was not measured: {report}"))?;
    }
    let mut left = walked(&room.at)?;
    left.retain(|path| path.contains("platter-windows") && !path.ends_with(".d"));
    expect(left.is_empty(), || format!("left: {left:?}"))?;
    room.judge(&["report", "made/report.json"]).map(drop)
}

/* Makes a volume, writes, lists and reads files on it, and checks it. The only argument is the path of the image to make. */
#include "platter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %d: %s\n", what, code, platter_error());
        exit(1);
    }
}

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not so: %s (last error: %s)\n", what, platter_error());
        exit(1);
    }
}

static int list(platter_volume *volume, const char *path) {
    platter_directory *directory;
    struct platter_entry entry;
    int got, count = 0;
    must(platter_open_directory(volume, path, &directory), "open directory");
    while ((got = platter_read_directory(directory, &entry)) > 0) {
        printf("%s %u %llu\n", entry.name, (unsigned)entry.stat.kind, (unsigned long long)entry.stat.size);
        count++;
    }
    must(got, "list");
    platter_close_directory(directory);
    return count;
}

static int walk(platter_volume *volume) {
    platter_directory *all;
    struct platter_entry entry;
    int got, count = 0, is_below = 0;
    must(platter_walk(volume, "/", &all), "walk");
    while ((got = platter_read_directory(all, &entry)) > 0) {
        is_below |= strcmp(entry.name, "/directory/below") == 0;
        count++;
    }
    must(got, "walk on");
    platter_close_directory(all);
    expect(is_below, "an entry is called by its path");
    return count;
}

int main(int arguments, char **argument) {
    static char data[100000], back[100001];
    platter_volume *volume = NULL;
    platter_file *file = NULL;
    struct platter_stat stat;
    char to[1000];
    uint64_t found = 1, saved = 0;
    const char *image = argument[1];

    expect(arguments == 2, "one argument");
    memset(data, 'x', sizeof data);
    must(platter_mkfs(image, "refs", 384u << 20), "mkfs");
    must(platter_open(image, 1, &volume), "open");
    must(platter_mkdir(volume, "directory"), "mkdir");
    must(platter_open_file(volume, "directory/file", NULL, PLATTER_CREATE | PLATTER_EXCLUSIVE, &file), "create");
    must(platter_write(file, 0, data, sizeof data), "write");
    must(platter_write(file, 99999, "yz", 2), "write at the end");
    must(platter_sync_file(file), "sync of a file");
    platter_close_file(file);
    must(platter_open_file(volume, "directory/file", "notes", PLATTER_CREATE, &file), "create a stream");
    must(platter_write(file, 0, "beside", 6), "write a stream");
    platter_close_file(file);
    must(platter_rename(volume, "directory/file", "moved"), "rename");
    must(platter_open_file(volume, "directory/below", NULL, PLATTER_CREATE, &file), "create another");
    platter_close_file(file);
    must(platter_sync(volume), "sync");
    must(platter_close(volume), "close");

    must(platter_open(image, 0, &volume), "open again");
    expect(list(volume, "/") == 2, "two entries in the root");
    expect(list(volume, "directory") == 1, "one in the directory");
    must(platter_stat_path(volume, "moved", &stat), "stat");
    expect(stat.kind == PLATTER_FILE && stat.size == 100001 && stat.links == 1 && stat.modified > 0, "its facts");
    must(platter_open_file(volume, "moved", NULL, 0, &file), "open a file");
    expect(platter_read(file, 0, back, sizeof back) == 100001, "all of it");
    expect(memcmp(back, data, 99999) == 0 && back[99999] == 'y' && back[100000] == 'z', "what was written");
    expect(platter_read(file, 100001, back, 10) == 0, "nothing after the end");
    expect(platter_write(file, 0, "x", 1) == -EROFS, "it is read-only");
    platter_close_file(file);
    must(platter_open_file(volume, "moved", "notes", 0, &file), "open a stream");
    expect(platter_read(file, 0, back, 10) == 6 && memcmp(back, "beside", 6) == 0, "a stream");
    platter_close_file(file);

    expect(platter_open_file(volume, "none", NULL, 0, &file) == -ENOENT, "no such file");
    expect(strcmp(platter_error(), "none: no such file or directory") == 0, "an error has a text");
    expect(platter_stat_path(volume, NULL, &stat) == -EINVAL, "no path");
    expect(platter_sync(NULL) == -EINVAL, "no volume");
    expect(platter_mkdir(volume, "x") == -EROFS, "a directory on a read-only volume");
    expect(walk(volume) == 3, "a directory with a file in it, and another file");
    must(platter_close(volume), "close again");
    must(platter_check(image, 0, &found), "check");
    expect(found == 0, "no damage");
    snprintf(to, sizeof to, "%s.to", image);
    must(platter_recover(image, to, NULL, &saved, &found), "recover");
    expect(saved == 2 && found == 0, "both files");
    expect(platter_recover(image, NULL, NULL, &saved, &found) == -EINVAL, "no directory");
    puts("done");
    return 0;
}

/* "make IMAGE" makes a volume that is then encrypted, and prints its size; "open IMAGE KEYFILE" opens it with every kind of key. */
#include "platter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not so: %s (last error: %s)\n", what, platter_error());
        exit(1);
    }
}

static void make(const char *image) {
    const uint64_t size = 4u << 20;
    platter_volume *volume = NULL;
    platter_file *file = NULL;
    expect(platter_mkfs(image, "exfat", size) == 0, "it is made");
    expect(platter_open(image, 1, &volume) == 0, "it opens");
    expect(platter_open_file(volume, "file", NULL, PLATTER_CREATE, &file) == 0, "a file is made");
    expect(platter_write(file, 0, "secret", 6) == 0, "it is written");
    platter_close_file(file);
    expect(platter_close(volume) == 0, "it closes");
    printf("%llu\n", (unsigned long long)size);
}

static void open_with(const char *image, struct platter_keys keys) {
    char content[10];
    uint64_t found = 1;
    platter_volume *volume = NULL;
    platter_file *file = NULL;
    expect(platter_open_encrypted(image, 1, &keys, &volume) == 0, "it opens with a key");
    expect(platter_open_file(volume, "file", NULL, 0, &file) == 0, "the file is there");
    expect(platter_read(file, 0, content, sizeof content) == 6 && memcmp(content, "secret", 6) == 0, "its content");
    platter_close_file(file);
    expect(platter_close(volume) == 0, "it closes");
    expect(platter_check_encrypted(image, 0, &keys, &found) == 0 && found == 0, "no damage");
}

int main(int arguments, char **argument) {
    struct platter_keys none = {NULL, NULL, NULL}, keys = none;
    platter_volume *volume = NULL;
    uint64_t found;
    if (arguments == 3 && strcmp(argument[1], "make") == 0) {
        make(argument[2]);
        return 0;
    }
    expect(arguments == 4, "three arguments");
    expect(platter_open(argument[2], 0, &volume) == -ENOKEY, "no key is given");
    expect(platter_check(argument[2], 0, &found) == -ENOKEY, "nor for a check");
    expect(platter_open_encrypted(argument[2], 0, NULL, &volume) == -EINVAL, "no place with keys");
    keys.password = "wrong";
    expect(platter_open_encrypted(argument[2], 0, &keys, &volume) == -ENOKEY, "a wrong password");
    expect(strstr(platter_error(), "this is not the password of the volume") != NULL, "it is called so");
    keys.password = "correct horse battery";
    open_with(argument[2], keys);
    keys = none;
    keys.recovery_key = "correct horse battery";
    expect(platter_open_encrypted(argument[2], 0, &keys, &volume) == -EINVAL, "no recovery key");
    keys.recovery_key = "471207-278498-422125-177177-561902-537405-468006-693451";
    open_with(argument[2], keys);
    keys = none;
    keys.key_file = argument[3];
    open_with(argument[2], keys);
    keys.key_file = argument[2];
    expect(platter_open_encrypted(argument[2], 0, &keys, &volume) == -EINVAL, "no key file");
    puts("done");
    return 0;
}

/* ReFS, NTFS, exFAT and FAT volumes for C.
 *
 * Link with libplatter_c.a, -lpthread -ldl -lm. See README.md beside this file.
 *
 * Functions that return int return 0, or a negative errno; platter_error() then says more. Strings are UTF-8 with a zero at
 * their end; paths have '/' between their names. A volume may be used from many threads at once, and so may a file; a
 * directory may not.
 */
#ifndef PLATTER_H
#define PLATTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct platter_volume platter_volume;
typedef struct platter_file platter_file;
typedef struct platter_directory platter_directory;

/* Kinds of entries. */
#define PLATTER_FILE 1
#define PLATTER_DIRECTORY 2
#define PLATTER_SYMLINK 3

/* How a file is opened. Without PLATTER_CREATE it has to be there. */
#define PLATTER_CREATE 1
#define PLATTER_TRUNCATE 2
#define PLATTER_EXCLUSIVE 4

/* What is known about a file or directory. Times are seconds since 1970 and nanoseconds after that; those that the format
 * does not keep are 0. */
struct platter_stat {
    uint64_t size;
    uint64_t allocated;
    int64_t created;
    int64_t modified;
    int64_t accessed;
    uint32_t created_ns;
    uint32_t modified_ns;
    uint32_t accessed_ns;
    uint32_t kind;
    uint32_t links;
    uint32_t flags;
};

/* An entry of a directory. The name is valid until the next call for the directory. */
struct platter_entry {
    const char *name;
    struct platter_stat stat;
};

/* What the last call of this thread that failed has to say; valid until the next that fails. Never NULL. */
const char *platter_error(void);

/* Opens a volume: a path, IMAGE@N for a partition, mirror:IMAGE,IMAGE. Writing is for this process alone. */
int platter_open(const char *source, int writable, platter_volume **volume);

/* Makes everything durable, marks the volume clean and gives the handle up, also when it fails. Files that are still open
 * can be read afterwards. */
int platter_close(platter_volume *volume);

/* Returns when the whole volume survives a power cut as it is now. */
int platter_sync(platter_volume *volume);

int platter_stat_path(platter_volume *volume, const char *path, struct platter_stat *stat);
int platter_mkdir(platter_volume *volume, const char *path);
int platter_remove(platter_volume *volume, const char *path);
int platter_rmdir(platter_volume *volume, const char *path);
int platter_rename(platter_volume *volume, const char *from, const char *to);

/* Lists a directory. platter_read_directory returns 1 and an entry, 0 at the end, or a negative errno. */
int platter_open_directory(platter_volume *volume, const char *path, platter_directory **directory);
int platter_read_directory(platter_directory *directory, struct platter_entry *entry);
void platter_close_directory(platter_directory *directory);

/* Opens a file, or with a stream that is not NULL a named stream of it. */
int platter_open_file(platter_volume *volume, const char *path, const char *stream, int how, platter_file **file);

/* Returns how many bytes were read, fewer than asked for only at the end of the file, or a negative errno. */
int64_t platter_read(platter_file *file, uint64_t offset, void *buffer, size_t length);

/* Writes all of it, and makes the file longer if it has to be. */
int platter_write(platter_file *file, uint64_t offset, const void *data, size_t length);

int platter_truncate(platter_file *file, uint64_t size);

/* Returns when the file survives a power cut as it is now. */
int platter_sync_file(platter_file *file);

void platter_close_file(platter_file *file);

/* Makes a volume ("ntfs", "refs", "exfat", "fat32", ...). An image of this size is made if size is not 0. */
int platter_mkfs(const char *source, const char *format, uint64_t size);

/* Checks a volume that is not open, and repairs it if asked to; says how much was found, notices left out. */
int platter_check(const char *source, int repair, uint64_t *found);

#ifdef __cplusplus
}
#endif

#endif

/* ReFS, NTFS, exFAT and FAT volumes for C.
 *
 * `pkg-config --cflags --libs platter` says how to compile and link. See README.md in the sources.
 *
 * Functions that return int return 0 on success, or a negative errno; platter_error() then returns a message. Strings are
 * UTF-8 and end with a zero byte; '/' separates the names of a path. Volumes and files may be used from many threads at once;
 * a platter_directory may be used from one thread at a time.
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

/* Flags for opening a file. Without PLATTER_CREATE the file must exist. */
#define PLATTER_CREATE 1
#define PLATTER_TRUNCATE 2
#define PLATTER_EXCLUSIVE 4

/* The attributes of a file or directory. Each time is a number of seconds since 1970 and a number of nanoseconds (_ns) in
 * addition; times that the format does not store are 0. */
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

/* An entry of a directory. The name is valid until the next call with the same platter_directory. */
struct platter_entry {
    const char *name;
    struct platter_stat stat;
};

/* Keys to volumes that BitLocker encrypts; NULL for those that are not there. A password and the 48 digits of a recovery key are
 * secrets, of which the library overwrites its own copies; key_file is the path of a .BEK file. */
struct platter_keys {
    const char *password;
    const char *recovery_key;
    const char *key_file;
};

/* Returns the message of the last call that failed in this thread. It is valid until the next call that fails in this
 * thread, and never NULL. */
const char *platter_error(void);

/* Opens a volume. The source is a path, IMAGE@N for a partition, or mirror:IMAGE,IMAGE for a mirror. While a volume is open
 * for writing, no other process may write to it. */
int platter_open(const char *source, int writable, platter_volume **volume);

/* The same for an encrypted volume; a volume that is not encrypted is opened whatever the keys are. -ENOKEY if no key opens
 * it, -EINVAL for what is no recovery key and no key file. */
int platter_open_encrypted(const char *source, int writable, const struct platter_keys *keys, platter_volume **volume);

/* Makes all changes durable, marks the volume as clean and frees the handle, which must not be used again, even if the call
 * fails. Files that are still open can be read afterwards. */
int platter_close(platter_volume *volume);

/* Makes all changes of the volume durable: after it returns, they survive a power cut. */
int platter_sync(platter_volume *volume);

int platter_stat_path(platter_volume *volume, const char *path, struct platter_stat *stat);
int platter_mkdir(platter_volume *volume, const char *path);
int platter_remove(platter_volume *volume, const char *path);
int platter_rmdir(platter_volume *volume, const char *path);
int platter_rename(platter_volume *volume, const char *from, const char *to);

/* Lists a directory. platter_read_directory returns 1 and fills in an entry, or returns 0 after the last entry, or a negative
 * errno. */
int platter_open_directory(platter_volume *volume, const char *path, platter_directory **directory);
int platter_read_directory(platter_directory *directory, struct platter_entry *entry);
void platter_close_directory(platter_directory *directory);

/* Lists everything below a directory, each directory before its own entries. The name of an entry is its path, which begins
 * with that of the directory. If a directory cannot be read, platter_read_directory returns its error once, and can be called
 * again for what follows. */
int platter_walk(platter_volume *volume, const char *path, platter_directory **directory);

/* Opens a file or, if stream is not NULL, the named stream of that name. "how" is a combination of the flags above. */
int platter_open_file(platter_volume *volume, const char *path, const char *stream, int how, platter_file **file);

/* Returns the number of bytes read, which is less than length only at the end of the file, or a negative errno. */
int64_t platter_read(platter_file *file, uint64_t offset, void *buffer, size_t length);

/* Writes all length bytes, and extends the file if necessary. */
int platter_write(platter_file *file, uint64_t offset, const void *data, size_t length);

int platter_truncate(platter_file *file, uint64_t size);

/* Makes the file durable: after it returns, the file survives a power cut in its present state. */
int platter_sync_file(platter_file *file);

void platter_close_file(platter_file *file);

/* Makes a new volume of a format ("ntfs", "refs", "exfat", "fat32", ...). If size is not 0, an image file of this size is
 * created for it. */
int platter_mkfs(const char *source, const char *format, uint64_t size);

/* Checks a volume that is not open, and repairs it if repair is not 0. Sets *found to the number of findings without
 * notices. */
int platter_check(const char *source, int repair, uint64_t *found);

/* The same for an encrypted volume. */
int platter_check_encrypted(const char *source, int repair, const struct platter_keys *keys, uint64_t *found);

/* Copies what can still be read of a volume to a directory that is empty, does not exist, or holds what an earlier call copied
 * that did not come to its end. Nothing is written to the source; keys may be NULL. Sets *saved to the number of files in the
 * directory, and *lost to that of files and directories that are missing, are not whole or may be wrong. */
int platter_recover(const char *source, const char *directory, const struct platter_keys *keys, uint64_t *saved,
                    uint64_t *lost);

#ifdef __cplusplus
}
#endif

#endif

// What PowerShell cannot do by itself: paths of any length, streams, contents that follow from numbers, clones, packs.
// C# 5, which is what Windows PowerShell 5.1 compiles.
using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.IO;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using Microsoft.Win32.SafeHandles;

namespace Platter
{
    public class Listing
    {
        public string Path;
        public uint Attributes;
        public long Size;
        public long Modified;
    }

    public static class Kit
    {
        const uint GENERIC_READ = 0x80000000, GENERIC_WRITE = 0x40000000;
        const uint SHARE_ALL = 7;
        const uint CREATE_NEW = 1, OPEN_EXISTING = 3;
        const uint BACKUP_SEMANTICS = 0x02000000;
        const uint FSCTL_DUPLICATE_EXTENTS_TO_FILE = 0x00098344;

        [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Unicode)]
        struct FindData
        {
            public uint Attributes;
            public uint CreatedLow, CreatedHigh, AccessedLow, AccessedHigh, ModifiedLow, ModifiedHigh;
            public uint SizeHigh, SizeLow;
            public uint ReparseTag, Reserved;
            [MarshalAs(UnmanagedType.ByValTStr, SizeConst = 260)]
            public string Name;
            [MarshalAs(UnmanagedType.ByValTStr, SizeConst = 14)]
            public string ShortName;
        }

        [StructLayout(LayoutKind.Sequential)]
        struct FileInformation
        {
            public uint Attributes;
            public uint CreatedLow, CreatedHigh, AccessedLow, AccessedHigh, ModifiedLow, ModifiedHigh;
            public uint Serial, SizeHigh, SizeLow, Links, IndexHigh, IndexLow;
        }

        [StructLayout(LayoutKind.Sequential)]
        struct DuplicateExtents
        {
            public IntPtr Source;
            public long SourceOffset, TargetOffset, Length;
        }

        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern SafeFileHandle CreateFileW(string path, uint access, uint share, IntPtr security, uint how, uint flags, IntPtr template);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern IntPtr FindFirstFileW(string pattern, out FindData data);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool FindNextFileW(IntPtr find, out FindData data);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern bool FindClose(IntPtr find);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool CreateDirectoryW(string path, IntPtr security);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool DeleteFileW(string path);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool MoveFileExW(string from, string to, uint flags);
        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool CreateHardLinkW(string link, string file, IntPtr security);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern bool GetFileInformationByHandle(SafeFileHandle file, out FileInformation information);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern bool FileTimeToLocalFileTime(ref long time, out long local);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern bool DeviceIoControl(SafeFileHandle file, uint code, ref DuplicateExtents input, int inputLength, IntPtr output, int outputLength, out int returned, IntPtr overlapped);

        static Exception Failed(string what)
        {
            var why = new Win32Exception(Marshal.GetLastWin32Error());
            return new IOException(what + ": " + why.Message + " (" + why.NativeErrorCode + ")");
        }

        // A path that may be longer than 260 characters and is taken as it is.
        static string Long(string path)
        {
            path = path.Replace('/', '\\');
            return path.StartsWith(@"\\") ? path : @"\\?\" + path;
        }

        static SafeFileHandle Open(string path, uint access, uint how)
        {
            var handle = CreateFileW(Long(path), access, SHARE_ALL, IntPtr.Zero, how, BACKUP_SEMANTICS, IntPtr.Zero);
            if (handle.IsInvalid) { throw Failed(path); }
            return handle;
        }

        // Everything below a directory that ends with a backslash. Links are listed and not followed.
        public static List<Listing> List(string root)
        {
            var listed = new List<Listing>();
            var left = new Stack<string>();
            left.Push("");
            while (left.Count > 0)
            {
                string directory = left.Pop();
                FindData data;
                IntPtr find = FindFirstFileW(Long(root + directory + "*"), out data);
                if (find == new IntPtr(-1))
                {
                    if (Marshal.GetLastWin32Error() == 2) { continue; }
                    throw Failed(root + directory);
                }
                try
                {
                    do
                    {
                        if (data.Name == "." || data.Name == "..") { continue; }
                        var one = new Listing();
                        one.Path = directory + data.Name;
                        one.Attributes = data.Attributes;
                        one.Size = ((long)data.SizeHigh << 32) | data.SizeLow;
                        one.Modified = ((long)data.ModifiedHigh << 32) | data.ModifiedLow;
                        listed.Add(one);
                        bool own = directory == "" && (data.Name == "System Volume Information" || data.Name == "$RECYCLE.BIN");
                        if ((data.Attributes & 0x410) == 0x10 && !own) { left.Push(one.Path + "/"); }
                    } while (FindNextFileW(find, out data));
                    if (Marshal.GetLastWin32Error() != 18) { throw Failed(root + directory); }
                }
                finally { FindClose(find); }
            }
            return listed;
        }

        // A time as the manifest has it. FAT keeps local time, which Windows converts by the offset of today.
        public static string Time(long time, bool local)
        {
            long shown = time;
            if (local && !FileTimeToLocalFileTime(ref time, out shown)) { throw Failed("a time"); }
            return DateTime.FromFileTimeUtc(shown).ToString("yyyy-MM-ddTHH:mm:ss", System.Globalization.CultureInfo.InvariantCulture) + "Z";
        }

        public static string Hex(byte[] bytes)
        {
            var text = new StringBuilder();
            foreach (byte one in bytes) { text.Append(one.ToString("x2")); }
            return text.ToString();
        }

        // The SHA-256 of a file or, as PATH:NAME, of a stream.
        public static string Hash(string path)
        {
            using (var stream = new FileStream(Open(path, GENERIC_READ, OPEN_EXISTING), FileAccess.Read, 1 << 20))
            using (var hash = SHA256.Create())
            {
                return Hex(hash.ComputeHash(stream));
            }
        }

        public static uint Links(string path)
        {
            using (var handle = Open(path, 0, OPEN_EXISTING))
            {
                FileInformation information;
                if (!GetFileInformationByHandle(handle, out information)) { throw Failed(path); }
                return information.Links;
            }
        }

        public static byte[] Sector(ulong content, ulong index)
        {
            var sector = new byte[512];
            Encoding.ASCII.GetBytes("PLATTER-CONTENT\n").CopyTo(sector, 0);
            Put(sector, 16, content);
            Put(sector, 24, index);
            unchecked
            {
                if (content % 2 == 0)
                {
                    byte same = (byte)(content ^ index);
                    for (int at = 32; at < 512; at++) { sector[at] = same; }
                    return sector;
                }
                ulong state = content ^ (index * 0x9E3779B97F4A7C15UL);
                for (int at = 32; at < 512; at += 8)
                {
                    state = state * 6364136223846793005UL + 1442695040888963407UL;
                    Put(sector, at, state ^ (state >> 29));
                }
            }
            return sector;
        }

        static void Put(byte[] bytes, int at, ulong number)
        {
            for (int one = 0; one < 8; one++) { bytes[at + one] = (byte)(number >> (8 * one)); }
        }

        static ulong Get(byte[] bytes, int at)
        {
            ulong number = 0;
            for (int one = 7; one >= 0; one--) { number = number << 8 | bytes[at + one]; }
            return number;
        }

        // Makes a file or stream with the content of this number, and returns its SHA-256.
        public static string Write(string path, ulong content, long size)
        {
            using (var stream = new FileStream(Open(path, GENERIC_READ | GENERIC_WRITE, CREATE_NEW), FileAccess.ReadWrite, 1 << 20))
            {
                for (long at = 0; at < size; at += 512)
                {
                    stream.Write(Sector(content, (ulong)(at / 512)), 0, (int)Math.Min(512, size - at));
                }
                stream.Flush(true);
            }
            return Hash(path);
        }

        // Writes the content of this number over a part of a file.
        public static void Overwrite(string path, ulong content, long offset, int length)
        {
            using (var stream = new FileStream(Open(path, GENERIC_READ | GENERIC_WRITE, OPEN_EXISTING), FileAccess.ReadWrite, 1 << 16))
            {
                stream.Position = offset;
                for (int at = 0; at < length; at += 512)
                {
                    stream.Write(Sector(content, (ulong)(at / 512)), 0, Math.Min(512, length - at));
                }
                stream.Flush(true);
            }
        }

        public static void SetLength(string path, long size)
        {
            using (var stream = new FileStream(Open(path, GENERIC_READ | GENERIC_WRITE, OPEN_EXISTING), FileAccess.ReadWrite, 4096))
            {
                stream.SetLength(size);
                stream.Flush(true);
            }
        }

        public static long Length(string path)
        {
            using (var stream = new FileStream(Open(path, GENERIC_READ, OPEN_EXISTING), FileAccess.Read, 4096))
            {
                return stream.Length;
            }
        }

        public static void MakeDirectory(string path) { if (!CreateDirectoryW(Long(path), IntPtr.Zero)) { throw Failed(path); } }
        public static void Delete(string path) { if (!DeleteFileW(Long(path))) { throw Failed(path); } }
        public static void Move(string from, string to) { if (!MoveFileExW(Long(from), Long(to), 0)) { throw Failed(to); } }
        public static void Link(string link, string file) { if (!CreateHardLinkW(Long(link), Long(file), IntPtr.Zero)) { throw Failed(link); } }

        // Gives a new file the clusters of another one. Both then share them until one is written to.
        public static void Clone(string from, string to)
        {
            using (var source = Open(from, GENERIC_READ, OPEN_EXISTING))
            using (var target = new FileStream(Open(to, GENERIC_READ | GENERIC_WRITE, CREATE_NEW), FileAccess.ReadWrite, 4096))
            {
                var extents = new DuplicateExtents();
                extents.Source = source.DangerousGetHandle();
                extents.Length = Length(from);
                target.SetLength(extents.Length);
                int returned;
                if (!DeviceIoControl(target.SafeFileHandle, FSCTL_DUPLICATE_EXTENTS_TO_FILE, ref extents, Marshal.SizeOf(extents), IntPtr.Zero, 0, out returned, IntPtr.Zero))
                {
                    throw Failed(to);
                }
            }
        }

        // Packs a disk of `size` bytes: see pack.rs in Platter. `disk` is a file, or \\.\PhysicalDriveN while it is in use.
        public static void Pack(string disk, long size, string pack)
        {
            using (var handle = CreateFileW(disk, GENERIC_READ, SHARE_ALL, IntPtr.Zero, OPEN_EXISTING, 0, IntPtr.Zero))
            {
                if (handle.IsInvalid) { throw Failed(disk); }
                using (var from = new FileStream(handle, FileAccess.Read, 1 << 20))
                using (var to = new FileStream(pack, FileMode.CreateNew))
                {
                    Pack(from, size, to);
                }
            }
        }

        // The record that is being gathered: its kind (-1: none), where it begins, and what tells its kind.
        class Record
        {
            public int Kind = -1;
            public long Offset, Length;
            public byte Same;
            public ulong Content, Index;
            public MemoryStream Bytes = new MemoryStream();
        }

        public static void Pack(Stream from, long size, Stream to)
        {
            to.Write(Encoding.ASCII.GetBytes("PLATTER-PACK-1\n\0"), 0, 16);
            WriteNumber(to, (ulong)size);
            var record = new Record();
            var piece = new byte[1 << 20];
            for (long at = 0; at < size; at += piece.Length)
            {
                int want = (int)Math.Min(piece.Length, size - at), got = 0;
                while (got < want)
                {
                    int more = from.Read(piece, got, want - got);
                    if (more == 0) { throw new EndOfStreamException("the disk ends at " + (at + got)); }
                    got += more;
                }
                for (int sector = 0; sector < want; sector += 512) { Add(record, piece, sector, Math.Min(512, want - sector), at + sector, to); }
            }
            End(record, to);
            to.WriteByte(255);
        }

        static void Add(Record record, byte[] piece, int start, int length, long offset, Stream to)
        {
            int kind = 1;
            for (int at = start + 1; at < start + length; at++) { if (piece[at] != piece[start]) { kind = 0; break; } }
            ulong content = 0, index = 0;
            if (kind == 0 && length == 512 && piece[start] == (byte)'P' && piece[start + 8] == (byte)'C')
            {
                content = Get(piece, start + 16);
                index = Get(piece, start + 24);
                byte[] whole = Sector(content, index);
                bool same = index < (1UL << 50);
                for (int at = 0; same && at < 512; at++) { same = piece[start + at] == whole[at]; }
                if (same) { kind = 2; }
            }
            bool goesOn = record.Kind == kind && record.Length < (1 << 26)
                && (kind != 1 || record.Same == piece[start])
                && (kind != 2 || (record.Content == content && record.Index + (ulong)(record.Length / 512) == index));
            if (!goesOn)
            {
                End(record, to);
                record.Kind = kind;
                record.Offset = offset;
                record.Same = piece[start];
                record.Content = content;
                record.Index = index;
            }
            record.Length += length;
            if (kind == 0) { record.Bytes.Write(piece, start, length); }
        }

        static void End(Record record, Stream to)
        {
            if (record.Kind >= 0 && !(record.Kind == 1 && record.Same == 0))
            {
                to.WriteByte((byte)record.Kind);
                WriteNumber(to, (ulong)record.Offset);
                WriteNumber(to, (ulong)record.Length);
                if (record.Kind == 0) { record.Bytes.WriteTo(to); }
                if (record.Kind == 1) { to.WriteByte(record.Same); }
                if (record.Kind == 2)
                {
                    WriteNumber(to, record.Content);
                    WriteNumber(to, record.Index);
                }
            }
            record.Kind = -1;
            record.Length = 0;
            record.Bytes.SetLength(0);
        }

        static void WriteNumber(Stream to, ulong number)
        {
            var bytes = new byte[8];
            Put(bytes, 0, number);
            to.Write(bytes, 0, 8);
        }
    }
}

//! Makes encrypted volumes of plain ones, for tests: nobody but Windows makes them otherwise.

use crate::cipher::{Method, SectorCipher};
use crate::entry;
use crate::header::{AT_SEVEN, AT_TO_GO, CLUSTER_AT, IDENTIFIER, Layout, SIGNATURE, cluster};
use crate::metadata::{BLOCK_HEAD, COMPLETE, REGION, REGION_OF_VISTA};
use crate::seal::Sealed;
use crate::secret::{RecoveryKey, hash_of_password};
use crate::stretch::stretch;
use platter_device::{Device, Result};
use platter_images::Guid;
use sha2::{Digest, Sha256};

/// What is made.
pub struct Making<'t> {
    /// The layout.
    pub layout: Layout,
    /// The method.
    pub method: Method,
    /// The sectors, in bytes.
    pub sector: u32,
    /// The offsets of the copies of the metadata: 64 KiB each that nothing else uses, 16 KiB on Vista.
    pub blocks: [u64; 3],
    /// Where the first sectors go, and how many bytes: nothing else uses these.
    pub first: (u64, u64),
    /// The password, if there is to be one.
    pub password: Option<&'t str>,
    /// The recovery key, if there is to be one.
    pub recovery_key: Option<&'t str>,
    /// Whether there is to be a key file.
    pub key_file: bool,
    /// Whether protection is suspended.
    pub clear_key: bool,
    /// How many bytes are encrypted, if it is not all, as in the midst of a conversion.
    pub encrypted: Option<u64>,
    /// What all keys and identifiers follow from.
    pub seed: u64,
}

/// The content of the key file, if there is one.
pub type MadeKeyFile = Option<Vec<u8>>;

/// Bytes that follow from a seed and what they are for.
fn bytes<const N: usize>(seed: u64, what: &str) -> [u8; N] {
    let hash = |half: u8| Sha256::digest([&seed.to_le_bytes()[..], what.as_bytes(), &[half]].concat());
    let all = [hash(0), hash(1)].concat();
    all[..N].try_into().expect("not more than two hashes")
}

fn entry(kind: u16, value: u16, data: &[u8]) -> Vec<u8> {
    let head = [(8 + data.len()) as u16, kind, value, 1].map(u16::to_le_bytes).concat();
    [head, data.to_vec()].concat()
}

/// Microsoft's time of some day in 2020.
const TIME: [u8; 8] = 0x01D6_3000_0000_0000_u64.to_le_bytes();

struct Maker<'m> {
    making: &'m Making<'m>,
    counter: u32,
}

impl Maker<'_> {
    fn bytes<const N: usize>(&self, what: &str) -> [u8; N] {
        bytes(self.making.seed, what)
    }

    fn sealed(&mut self, with: &[u8; 32], method: u32, key: &[u8]) -> Vec<u8> {
        self.counter += 1;
        let nonce = [&TIME[..], &self.counter.to_le_bytes()].concat();
        Sealed::make(with, nonce.try_into().expect("8 and 4 bytes"), method, key)
    }

    /// A protector of the master key, by a key with whatever says how to come to it.
    fn protector(&mut self, what: &str, number: u16, with: &[u8; 32], before: &[u8]) -> Vec<u8> {
        let master: [u8; 32] = self.bytes("master key");
        let sealed = self.sealed(with, 0x2003, &master);
        let mut data = self.bytes::<16>(what).to_vec();
        data.extend(TIME);
        data.extend([0, 0]);
        data.extend(number.to_le_bytes());
        data.extend(before);
        data.extend(entry(0, entry::SEALED_KEY, &sealed));
        entry(entry::VOLUME_MASTER_KEY, entry::MASTER_KEY, &data)
    }

    fn stretched(&mut self, what: &str, number: u16, hash: &[u8; 32]) -> Vec<u8> {
        let salt: [u8; 16] = self.bytes(&format!("salt of {what}"));
        let with = *stretch(hash, &salt, &|| false).expect("nobody stops it");
        // Windows has the stretched key there, encrypted with the master key.
        let master: [u8; 32] = self.bytes("master key");
        let inside = self.sealed(&master, 0x2003, &with);
        let head = [&0x1000_u32.to_le_bytes()[..], &salt, &entry(0, entry::SEALED_KEY, &inside)].concat();
        self.protector(what, number, &with, &entry(0, entry::STRETCH_KEY, &head))
    }

    fn entries(&mut self, key: &[u8]) -> Vec<u8> {
        let Making { password, recovery_key, key_file, clear_key, .. } = *self.making;
        let text: Vec<u8> = "PLATTER D: 2020\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut all = entry(entry::DESCRIPTION, entry::TEXT, &text);
        if let Some(password) = password {
            all.extend(self.stretched("password", 0x2000, &hash_of_password(password)));
        }
        if let Some(text) = recovery_key {
            let key = RecoveryKey::parse(text).expect("a recovery key");
            all.extend(self.stretched("recovery key", 0x0800, &key.hash()));
        }
        if key_file {
            let with: [u8; 32] = self.bytes("key of the file");
            let text: Vec<u8> = "ExternalKey\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
            all.extend(self.protector("key file", 0x0200, &with, &entry(0, entry::TEXT, &text)));
        }
        if clear_key {
            let with: [u8; 32] = self.bytes("clear key");
            let data = [&0x2000_u32.to_le_bytes()[..], &with].concat();
            all.extend(self.protector("clear key", 0, &with, &entry(0, entry::KEY, &data)));
        }
        let master: [u8; 32] = self.bytes("master key");
        let sealed = self.sealed(&master, u32::from(self.making.method.number()), key);
        all.extend(entry(entry::VOLUME_ENCRYPTION_KEY, entry::SEALED_KEY, &sealed));
        if self.making.layout != Layout::Vista {
            let (at, size) = self.making.first;
            all.extend(entry(
                entry::VOLUME_HEADER,
                entry::OFFSET_AND_SIZE,
                &[at, size].map(u64::to_le_bytes).concat(),
            ));
        }
        all
    }

    /// A block of metadata with its check sum.
    fn block(&mut self, key: &[u8], encrypted: u64, mirror: u64) -> Vec<u8> {
        let is_vista = self.making.layout == Layout::Vista;
        let entries = self.entries(key);
        let size = entry::METADATA_HEAD + entries.len();
        let length = (BLOCK_HEAD + size).next_multiple_of(16);
        let state = if self.making.encrypted.is_some() { 5 } else { COMPLETE };
        let next = if self.making.encrypted.is_some() { 1 } else { COMPLETE };
        let mut block = SIGNATURE.to_vec();
        let units = if is_vista { length } else { length / 16 } as u16;
        let version: u16 = if is_vista { 1 } else { 2 };
        block.extend([units, version, state, next].map(u16::to_le_bytes).concat());
        block.extend(encrypted.to_le_bytes());
        if is_vista {
            // By [BDE] Vista has zeroes before these too, but dislocker takes the size of the volume from there.
            block.extend([0; 8]);
        } else {
            block.extend(0_u32.to_le_bytes());
            block.extend(((self.making.first.1 / u64::from(self.making.sector)) as u32).to_le_bytes());
        }
        block.extend(self.making.blocks.map(u64::to_le_bytes).concat());
        block.extend(if is_vista { mirror } else { self.making.first.0 }.to_le_bytes());
        block.extend(
            [size as u32, 1, entry::METADATA_HEAD as u32, size as u32].map(u32::to_le_bytes).concat(),
        );
        block.extend(self.bytes::<16>("volume"));
        block.extend((self.counter + 1).to_le_bytes());
        block.extend(u32::from(self.making.method.number()).to_le_bytes());
        block.extend(TIME);
        block.extend(entries);
        block.resize(length, 0);
        let region = if is_vista { REGION_OF_VISTA } else { REGION };
        let sum = crc32fast::hash(&block);
        let rest = region as usize - length;
        block.extend([rest as u16, version].map(u16::to_le_bytes).concat());
        block.extend(sum.to_le_bytes());
        block.resize(region as usize, 0);
        block
    }

    fn key_file(&self) -> Vec<u8> {
        let id = self.bytes::<16>("key file");
        let key = [&0x2002_u32.to_le_bytes()[..], &self.bytes::<32>("key of the file")].concat();
        let data = [&id[..], &TIME, &entry(0, entry::KEY, &key)].concat();
        let external = entry(0x0006, entry::EXTERNAL_KEY, &data);
        let size = (entry::METADATA_HEAD + external.len()) as u32;
        let mut file = [size, 1, entry::METADATA_HEAD as u32, size].map(u32::to_le_bytes).concat();
        file.extend(id);
        file.extend([1_u32, 0].map(u32::to_le_bytes).concat());
        file.extend(TIME);
        file.extend(external);
        file
    }
}

impl Making<'_> {
    /// The identifier of the key file, which its name has.
    pub fn key_file_id(&self) -> Guid {
        Guid(bytes(self.seed, "key file"))
    }

    /// Parameters of a FAT32 volume that is none, or with BitLocker To Go is a small one: \[BDE\], "Volume header".
    fn parameters(&self) -> [u8; 76] {
        let mut bytes = [0; 76];
        let mut put = |at: usize, data: &[u8]| bytes[at - 14..at - 14 + data.len()].copy_from_slice(data);
        put(21, &[0xF8]);
        put(24, &[0x3F, 0, 0xFF]);
        put(36, &[0xE0, 0x1F]);
        put(48, &[1, 0, 6]);
        put(64, &[0x80, 0, 0x29]);
        put(71, b"NO NAME    FAT32   ");
        if self.layout == Layout::ToGo {
            put(14, &[33, 0, 1]);
        }
        bytes
    }

    /// Encrypts the volume on a device. What the places of the metadata held is lost.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn encrypt(&self, device: &dyn Device) -> Result<MadeKeyFile> {
        let mut maker = Maker { making: self, counter: 0 };
        let key: [u8; 64] = maker.bytes("key of the sectors");
        let key = &key[..self.method.key_length()];
        let cipher =
            SectorCipher::new(self.method, key, self.sector as usize).expect("a key of the method's length");
        let encrypted = self.encrypted.unwrap_or(device.len());
        let is_vista = self.layout == Layout::Vista;
        let first = if is_vista { 16 * u64::from(self.sector) } else { self.first.1 };
        let mut content = vec![0; first as usize];
        device.read_at(0, &mut content)?;
        let mut sector = content[..512].to_vec();
        const STEP: usize = 1 << 20;
        let mut part = vec![0; STEP];
        for offset in (first..encrypted).step_by(STEP) {
            let part = &mut part[..STEP.min((encrypted - offset) as usize)];
            device.read_at(offset, part)?;
            cipher.encrypt(offset, part);
            device.write_at(offset, part)?;
        }
        let mirror = crate::bytes::le64(&sector, CLUSTER_AT).unwrap_or(0);
        let block = maker.block(key, encrypted, mirror);
        for at in self.blocks {
            device.write_at(at, &block)?;
        }
        sector[3..11].copy_from_slice(&SIGNATURE);
        let at = match self.layout {
            Layout::Vista => {
                let of_first = self.blocks[0] / cluster(&sector, self.sector);
                sector[CLUSTER_AT..CLUSTER_AT + 8].copy_from_slice(&of_first.to_le_bytes());
                content[..512].copy_from_slice(&sector);
                return device
                    .write_at(0, &content[..self.sector as usize])
                    .map(|()| maker.making.key_file.then(|| maker.key_file()));
            }
            Layout::Seven => AT_SEVEN,
            Layout::ToGo => {
                sector[3..11].copy_from_slice(b"MSWIN4.1");
                AT_TO_GO
            }
        };
        if self.first.0 < encrypted {
            cipher.encrypt(self.first.0, &mut content);
        }
        device.write_at(self.first.0, &content)?;
        sector[..3].copy_from_slice(&[0xEB, 0x58, 0x90]);
        sector[11..13].copy_from_slice(&(self.sector as u16).to_le_bytes());
        sector[14..90].copy_from_slice(&self.parameters());
        sector[at..at + 16].copy_from_slice(&IDENTIFIER);
        sector[at + 16..at + 40].copy_from_slice(&self.blocks.map(u64::to_le_bytes).concat());
        sector[510..].copy_from_slice(&[0x55, 0xAA]);
        sector.resize(first as usize, 0);
        device.write_at(0, &sector)?;
        Ok(self.key_file.then(|| maker.key_file()))
    }
}

//! Encrypting and decrypting sectors.

use crate::diffuser::{diffuse, gather};
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit,
    consts::U16,
};
use aes::{Aes128, Aes256};
use std::fmt;
use xts_mode::{Xts128, get_tweak_default};

/// How the sectors of a volume are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// AES-CBC with a key of 128 bits, and the Elephant diffuser: the default of Windows Vista and 7.
    Cbc128Diffuser,
    /// AES-CBC with a key of 256 bits, and the Elephant diffuser.
    Cbc256Diffuser,
    /// AES-CBC with a key of 128 bits: the default of Windows 8, and for removable drives of later ones.
    Cbc128,
    /// AES-CBC with a key of 256 bits.
    Cbc256,
    /// AES-XTS with keys of 128 bits: the default since Windows 10 1511.
    Xts128,
    /// AES-XTS with keys of 256 bits.
    Xts256,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] = [
        Method::Cbc128Diffuser,
        Method::Cbc256Diffuser,
        Method::Cbc128,
        Method::Cbc256,
        Method::Xts128,
        Method::Xts256,
    ];

    /// The method with this number on disk: \[BDE\], "Encryption methods".
    pub(crate) fn of_number(number: u16) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.number() == number)
    }

    /// The number of the method on disk.
    pub(crate) fn number(self) -> u16 {
        match self {
            Method::Cbc128Diffuser => 0x8000,
            Method::Cbc256Diffuser => 0x8001,
            Method::Cbc128 => 0x8002,
            Method::Cbc256 => 0x8003,
            Method::Xts128 => 0x8004,
            Method::Xts256 => 0x8005,
        }
    }

    /// The length of the key as it is stored, in bytes. With the diffuser the second half is its key, and of each half as
    /// much counts as the cipher needs.
    pub(crate) fn key_length(self) -> usize {
        match self {
            Method::Cbc128Diffuser | Method::Cbc256Diffuser | Method::Xts256 => 64,
            Method::Cbc128 => 16,
            Method::Cbc256 | Method::Xts128 => 32,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Cbc128Diffuser => "AES-CBC of 128 bits with the Elephant diffuser",
            Method::Cbc256Diffuser => "AES-CBC of 256 bits with the Elephant diffuser",
            Method::Cbc128 => "AES-CBC of 128 bits",
            Method::Cbc256 => "AES-CBC of 256 bits",
            Method::Xts128 => "AES-XTS of 128 bits",
            Method::Xts256 => "AES-XTS of 256 bits",
        })
    }
}

/// What encrypts sectors and decrypts them. The expanded keys are overwritten when it is dropped.
pub(crate) struct SectorCipher {
    sector: usize,
    each: Box<dyn EachSector>,
}

impl SectorCipher {
    /// The cipher of a volume with sectors of this size; `None` if the key does not have the method's length.
    pub(crate) fn new(method: Method, key: &[u8], sector: usize) -> Option<SectorCipher> {
        if key.len() != method.key_length() {
            return None;
        }
        let half = key.len() / 2;
        let each: Box<dyn EachSector> = match method {
            Method::Cbc128Diffuser => Box::new(Cbc::<Aes128>::new(&key[..16], Some(&key[half..half + 16]))?),
            Method::Cbc256Diffuser => Box::new(Cbc::<Aes256>::new(&key[..32], Some(&key[half..]))?),
            Method::Cbc128 => Box::new(Cbc::<Aes128>::new(key, None)?),
            Method::Cbc256 => Box::new(Cbc::<Aes256>::new(key, None)?),
            Method::Xts128 => Box::new(xts::<Aes128>(key)?),
            Method::Xts256 => Box::new(xts::<Aes256>(key)?),
        };
        Some(SectorCipher { sector, each })
    }

    /// Encrypts whole sectors, of which the first is stored at this offset of the volume.
    pub(crate) fn encrypt(&self, offset: u64, sectors: &mut [u8]) {
        for (at, sector) in (offset..).step_by(self.sector).zip(sectors.chunks_exact_mut(self.sector)) {
            self.each.encrypt(at, sector);
        }
    }

    /// Decrypts whole sectors, of which the first is stored at this offset of the volume.
    pub(crate) fn decrypt(&self, offset: u64, sectors: &mut [u8]) {
        for (at, sector) in (offset..).step_by(self.sector).zip(sectors.chunks_exact_mut(self.sector)) {
            self.each.decrypt(at, sector);
        }
    }
}

/// One sector, stored at `offset` of the volume.
trait EachSector: Send + Sync {
    fn encrypt(&self, offset: u64, sector: &mut [u8]);
    fn decrypt(&self, offset: u64, sector: &mut [u8]);
}

/// A block cipher of 16 bytes.
trait Block:
    KeyInit + BlockCipherEncrypt + BlockCipherDecrypt + aes::cipher::BlockSizeUser<BlockSize = U16> + Send + Sync
{
}

impl Block for Aes128 {}
impl Block for Aes256 {}

/// \[BDE\], "AES-XTS": the tweak is the number of the sector.
fn xts<C: Block>(key: &[u8]) -> Option<Xts128<C>> {
    let (one, two) = key.split_at(key.len() / 2);
    Some(Xts128::new(C::new_from_slice(one).ok()?, C::new_from_slice(two).ok()?))
}

impl<C: Block> EachSector for Xts128<C> {
    fn encrypt(&self, offset: u64, sector: &mut [u8]) {
        let number = u128::from(offset / sector.len() as u64);
        self.encrypt_sector(sector, get_tweak_default(number));
    }

    fn decrypt(&self, offset: u64, sector: &mut [u8]) {
        let number = u128::from(offset / sector.len() as u64);
        self.decrypt_sector(sector, get_tweak_default(number));
    }
}

/// \[BDE\], "AES-CBC" and "AES-CBC with Elephant Diffuser": the initial vector is the sector's offset in bytes, encrypted
/// with the same key.
struct Cbc<C> {
    cipher: C,
    /// The cipher of the sector keys, where there is a diffuser.
    tweak: Option<C>,
}

impl<C: Block> Cbc<C> {
    fn new(key: &[u8], tweak: Option<&[u8]>) -> Option<Cbc<C>> {
        let tweak = match tweak {
            Some(key) => Some(C::new_from_slice(key).ok()?),
            None => None,
        };
        Some(Cbc { cipher: C::new_from_slice(key).ok()?, tweak })
    }

    fn vector(&self, offset: u64) -> Array<u8, U16> {
        let mut vector = Array(u128::from(offset).to_le_bytes());
        self.cipher.encrypt_block(&mut vector);
        vector
    }

    /// Combines a sector with its key of 32 bytes.
    fn whiten(tweak: &C, offset: u64, sector: &mut [u8]) {
        let mut key = [0; 32];
        for (half, last) in key.chunks_exact_mut(16).zip([0, 0x80]) {
            let mut block = Array(u128::from(offset).to_le_bytes());
            block[15] = last;
            tweak.encrypt_block(&mut block);
            half.copy_from_slice(&block);
        }
        for part in sector.chunks_exact_mut(32) {
            part.iter_mut().zip(&key).for_each(|(byte, key)| *byte ^= key);
        }
    }
}

/// The blocks of a sector, whose size is a multiple of theirs.
fn blocks(sector: &mut [u8]) -> &mut [Array<u8, U16>] {
    Array::slice_as_chunks_mut(sector).0
}

impl<C: Block> EachSector for Cbc<C> {
    fn encrypt(&self, offset: u64, sector: &mut [u8]) {
        if let Some(tweak) = &self.tweak {
            Cbc::whiten(tweak, offset, sector);
            diffuse(sector);
        }
        let vector = self.vector(offset);
        cbc::Encryptor::inner_iv_init(&self.cipher, &vector).encrypt_blocks(blocks(sector));
    }

    fn decrypt(&self, offset: u64, sector: &mut [u8]) {
        let vector = self.vector(offset);
        cbc::Decryptor::inner_iv_init(&self.cipher, &vector).decrypt_blocks(blocks(sector));
        if let Some(tweak) = &self.tweak {
            gather(sector);
            Cbc::whiten(tweak, offset, sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_gives_back_what_it_encrypts_and_depends_on_key_and_place() {
        for method in Method::ALL {
            for sector in [512, 4096] {
                let key: Vec<u8> = (0..method.key_length() as u8).collect();
                let cipher = SectorCipher::new(method, &key, sector).unwrap();
                let text: Vec<u8> = (0..2 * sector).map(|at| (at / 16) as u8).collect();
                let mut bytes = text.clone();
                cipher.encrypt(8192, &mut bytes);
                let mut elsewhere = text.clone();
                cipher.encrypt(16384, &mut elsewhere);
                assert!(bytes.chunks(16).zip(elsewhere.chunks(16)).all(|(one, two)| one != two), "{method}");
                // Each byte of the key counts that the method uses.
                for at in [0, key.len() - 1] {
                    let mut other = key.clone();
                    other[at] ^= 1;
                    let mut otherwise = text.clone();
                    let other = SectorCipher::new(method, &other, sector).unwrap();
                    other.encrypt(8192, &mut otherwise);
                    let is_used = method != Method::Cbc128Diffuser || at == 0;
                    assert_eq!(otherwise != bytes, is_used, "{method}");
                }
                cipher.decrypt(8192, &mut bytes);
                assert_eq!(bytes, text, "{method}");
                // Sectors are encrypted each by itself.
                let mut half = text[sector..].to_vec();
                cipher.encrypt(8192 + sector as u64, &mut half);
                cipher.encrypt(8192, &mut bytes);
                assert_eq!(half, bytes[sector..], "{method}");
            }
        }
        assert!(SectorCipher::new(Method::Xts128, &[0; 31], 512).is_none());
    }
}

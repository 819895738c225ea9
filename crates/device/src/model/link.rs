//! The way between the host and a drive: how many commands it carries at once, how large, and in what time.

use super::parameters::Parameters;

/// A link, and when it is free.
pub(super) struct Link {
    /// The most commands that the drive has at once.
    pub depth: usize,
    /// The most bytes of a command.
    pub most: u64,
    /// The nanoseconds that each command takes on the link.
    overhead: f64,
    /// Bytes per nanosecond, in each direction where there are two.
    rate: f64,
    /// The nanoseconds of one way through switches and cables, which other commands do not wait for.
    way: f64,
    is_duplex: bool,
    /// When the way to the drive and the one back are free.
    there: f64,
    back: f64,
}

/// What is known of a kind of link without a model: its name, its depth, its largest command in KiB, the time of a
/// command in microseconds, its rate in MB/s, and whether both directions are apart.
struct Kind(&'static str, f64, f64, f64, f64, bool);

/// Serial ATA with its queue of 32; the bulk-only transport of USB 2.0, which carries one command of at most 64 KiB at a
/// time, at 13 packets of 512 bytes in each of 8,000 microframes a second (USB 2.0 specification, table 5-10); USB 3 with UASP;
/// FireWire 400 with SBP-2; NVMe over four lanes of PCIe 4.0; an SD card's bus at UHS-I without a queue; Fibre Channel at 16 Gbit/s over two ways.
const KINDS: [Kind; 7] = [
    Kind("sata", 32.0, 32_768.0, 5.0, 550.0, false),
    Kind("usb2", 1.0, 64.0, 750.0, 53.248, false),
    Kind("uasp", 32.0, 1024.0, 20.0, 430.0, true),
    Kind("firewire", 4.0, 128.0, 400.0, 40.0, false),
    Kind("nvme", 1024.0, 1024.0, 0.5, 7000.0, true),
    Kind("sd", 1.0, 512.0, 100.0, 95.0, false),
    Kind("fc", 256.0, 1024.0, 2.0, 3200.0, true),
];

impl Link {
    pub(super) fn new(parameters: &Parameters) -> Result<Link, String> {
        let names = KINDS.map(|kind| kind.0);
        let name = parameters.word("link", Some("sata"), &names)?;
        let Kind(_, depth, most, overhead, rate, is_duplex) =
            KINDS.into_iter().find(|kind| kind.0 == name).expect("a word of the list");
        Ok(Link {
            depth: parameters.count("link_depth", Some(depth), 1.0, 65_536.0)? as usize,
            most: parameters.count("link_most_kib", Some(most), 1.0, 1e6)? << 10,
            overhead: parameters.time("link_command_us", 1e3, Some(overhead))?,
            rate: parameters.rate("link_mb_s", Some(rate))?,
            way: parameters.time("link_round_trip_us", 1e3, Some(0.0))? / 2.0,
            is_duplex,
            there: 0.0,
            back: 0.0,
        })
    }

    /// When a command that the host sends now, with this many bytes, is at the drive.
    pub(super) fn send(&mut self, now: u64, bytes: u64) -> u64 {
        let start = (now as f64).max(self.there);
        self.there = start + self.overhead + bytes as f64 / self.rate;
        if !self.is_duplex {
            self.back = self.back.max(self.there);
        }
        (self.there + self.way) as u64
    }

    /// When the host has the answer that the drive gives now, with this many bytes.
    pub(super) fn answer(&mut self, now: u64, bytes: u64) -> u64 {
        let start = (now as f64).max(self.back);
        self.back = start + bytes as f64 / self.rate;
        if !self.is_duplex {
            self.there = self.there.max(self.back);
        }
        (self.back + self.way) as u64
    }
}

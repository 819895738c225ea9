//! The log, as others read it and replay it.

use platter_device::{Device, FileDevice, FileOptions};
use platter_ntfs::layout::{BootSector, Content, Geometry, Kind, Record, fixup, record_number, runs};
use platter_ntfs::log::{Change, Log, Place, State, Target};
use platter_vfs::model::{ImageFile, linux};
use std::process::Command;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{program} (from ntfs-3g) cannot be run: {error}"));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

/// A volume by mkntfs.
struct Volume {
    image: ImageFile,
    device: FileDevice,
    geometry: Geometry,
}

impl Volume {
    fn new(bytes: u64, cluster: u32) -> Volume {
        let image = ImageFile::empty(bytes);
        run("mkntfs", &["-F", "-q", "-Q", "-c", &cluster.to_string(), image.path()]);
        let text = ImageFile::new(b"the text before");
        run("ntfscp", &["-q", image.path(), text.path(), "file"]);
        let device = FileDevice::open(std::path::Path::new(image.path()), FileOptions::default()).unwrap();
        let mut boot = [0; 512];
        device.read_at(0, &mut boot).unwrap();
        let geometry = BootSector::from_bytes(&boot).unwrap().geometry(device.len()).unwrap();
        Volume { image, device, geometry }
    }

    /// A record, and where it stands in `$MFT`, whose first run is long enough for these.
    fn record(&self, number: u64) -> (Record, u64) {
        let offset = number * u64::from(self.geometry.record);
        let at = self.geometry.mft * self.geometry.cluster + offset;
        let mut bytes = vec![0; self.geometry.record as usize];
        self.device.read_at(at, &mut bytes).unwrap();
        fixup::remove(&mut bytes, "file record", at).unwrap();
        (Record::from_bytes(&bytes, at).unwrap(), offset)
    }

    fn runs(&self, record: &Record, kind: Kind, name: &str) -> Vec<(u64, u64)> {
        match &record.find(kind, name).unwrap().content {
            Content::NonResident(data) => {
                runs::unpack(&data.pairs, data.first, data.end, self.geometry.clusters, 0)
                    .unwrap()
                    .iter()
                    .map(|run| (run.lcn.unwrap() * self.geometry.cluster, run.length * self.geometry.cluster))
                    .collect()
            }
            Content::Resident { .. } => panic!("{kind:?} is resident"),
        }
    }

    fn place(&self) -> Place {
        let (record, _) = self.record(record_number::LOG_FILE);
        Place {
            runs: self.runs(&record, Kind::DATA, ""),
            cluster: self.geometry.cluster as u32,
            record: self.geometry.record,
        }
    }

    /// The record of the file that mkntfs did not make.
    fn file(&self) -> (Record, u64) {
        (27..80)
            .map(|number| self.record(number))
            .find(|(record, _)| record.in_use() && record.find(Kind::DATA, "").is_some())
            .expect("ntfscp made a file")
    }

    /// The clusters that a piece of `$MFT` touches.
    fn lcns(&self, offset: u64, length: u64) -> Vec<u64> {
        let cluster = self.geometry.cluster;
        (offset / cluster..(offset + length).div_ceil(cluster)).map(|vcn| self.geometry.mft + vcn).collect()
    }

    fn text(&self) -> Vec<u8> {
        self.file().0.find(Kind::DATA, "").unwrap().value().unwrap().to_vec()
    }

    /// Writes a group that gives the file this text, and nothing in place.
    fn log_text(&self, log: &mut Log, text: &str) {
        let (mut record, offset) = self.file();
        for attribute in &mut record.attributes {
            if attribute.kind == Kind::DATA {
                attribute.content = Content::Resident { value: text.as_bytes().to_vec(), indexed: false };
            }
        }
        let bytes = record.to_bytes(self.geometry.record as usize).unwrap();
        let lcns = self.lcns(offset, bytes.len() as u64);
        let change = Change { target: &Target::FileRecord, offset, lcns: &lcns, bytes: &bytes };
        log.append(&self.device, &[change]).unwrap();
    }
}

#[test]
fn linux_replays_what_was_logged() {
    for cluster in [4096, 512] {
        let volume = Volume::new(64 << 20, cluster);
        let (mut log, state) = Log::open(&volume.device, volume.place()).unwrap();
        assert!(matches!(state, State::Clean), "{state:?}");
        log.begin(&volume.device, 0).unwrap();
        for number in 0..20 {
            volume.log_text(&mut log, &format!("the text after, {number}"));
        }
        assert_eq!(volume.text(), b"the text before");
        let judged = linux("ntfs3", "rw", &volume.image, "cat file; echo; cat file > copy; sync");
        assert_eq!(
            judged.output.as_deref().map(str::trim),
            Some("the text after, 19"),
            "{}",
            judged.messages
        );
        assert!(judged.unmounted, "{}", judged.messages);
        assert_eq!(volume.text(), b"the text after, 19");
    }
}

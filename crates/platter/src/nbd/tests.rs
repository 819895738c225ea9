use super::*;
use platter_device::{MemoryDevice, Sectors};

const SIZE: u64 = 1 << 20;

fn export(read_only: bool) -> Export {
    Export::new(Arc::new(MemoryDevice::new(SIZE, Sectors::SMALL)), read_only)
}

/// What an export says to a client that sends these bytes and then ends the connection.
fn told(export: &Export, sent: &[u8]) -> (io::Result<()>, Vec<u8>) {
    let mut said = Vec::new();
    let done = export.serve(&mut &*sent, &mut said);
    (done, said)
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut sent = OPTION_MAGIC.to_be_bytes().to_vec();
    sent.extend(option.to_be_bytes());
    sent.extend((data.len() as u32).to_be_bytes());
    sent.extend(data);
    sent
}

fn hello() -> Vec<u8> {
    u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes().to_vec()
}

fn request(command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Vec<u8> {
    let mut sent = REQUEST_MAGIC.to_be_bytes().to_vec();
    sent.extend(flags.to_be_bytes());
    sent.extend(command.to_be_bytes());
    sent.extend(7_u64.to_be_bytes());
    sent.extend(offset.to_be_bytes());
    sent.extend(length.to_be_bytes());
    sent.extend(data);
    sent
}

/// Sends one request; returns the error number and the data of its reply.
fn ask(export: &Export, request: &[u8]) -> (u32, Vec<u8>) {
    let begin = [hello(), option(option::EXPORT_NAME, &[])].concat();
    let (done, before) = told(export, &begin);
    done.unwrap();
    let (done, said) = told(export, &[&begin[..], request].concat());
    done.unwrap();
    let reply = &said[before.len()..];
    assert_eq!(reply[..4], REPLY_MAGIC.to_be_bytes());
    assert_eq!(reply[8..16], 7_u64.to_be_bytes());
    (u32::from_be_bytes(reply[4..8].try_into().unwrap()), reply[16..].to_vec())
}

#[test]
fn an_export_is_read_and_written() {
    let export = export(false);
    assert_eq!(ask(&export, &request(command::WRITE, command::FUA, 512, 512, &[3; 512])), (0, vec![]));
    assert_eq!(ask(&export, &request(command::READ, 0, 511, 2, &[])), (0, vec![0, 3]));
    assert_eq!(ask(&export, &request(command::WRITE_ZEROES, 0, 512, 512, &[])), (0, vec![]));
    assert_eq!(ask(&export, &request(command::READ, 0, 512, 1, &[])), (0, vec![0]));
    assert_eq!(ask(&export, &request(command::FLUSH, 0, 0, 0, &[])).0, 0);
    assert_eq!(ask(&export, &request(command::TRIM, 0, 0, 4096, &[])).0, 0);
}

#[test]
fn what_cannot_be_done_has_the_errors_of_the_protocol() {
    let export = export(false);
    let error = |export: &Export, sent: &[u8]| ask(export, sent).0;
    assert_eq!(error(&export, &request(command::READ, 0, SIZE, 1, &[])), errno::INVALID);
    assert_eq!(error(&export, &request(command::READ, 0, u64::MAX, 2, &[])), errno::INVALID);
    assert_eq!(error(&export, &request(command::WRITE, 0, SIZE, 512, &[0; 512])), errno::NO_SPACE);
    assert_eq!(error(&export, &request(command::WRITE, 0, 1, 512, &[0; 512])), errno::INVALID);
    assert_eq!(error(&export, &request(99, 0, 0, 0, &[])), errno::INVALID);
    let read_only = super::tests::export(true);
    for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let data = vec![1; if command == command::WRITE { 512 } else { 0 }];
        assert_eq!(error(&read_only, &request(command, 0, 0, 512, &data)), errno::NOT_PERMITTED);
    }
}

#[test]
fn an_error_of_the_device_is_an_error_of_the_request() {
    use platter_device::{Fault, Faults, Operation, When};
    let faults = Faults::new(Arc::new(MemoryDevice::new(SIZE, Sectors::SMALL)), 1);
    faults.inject(When::from(Operation::Flush, 0), Fault::Fail);
    let export = Export::new(Arc::new(faults), false);
    assert_eq!(ask(&export, &request(command::FLUSH, 0, 0, 0, &[])).0, errno::IO);
    assert_eq!(ask(&export, &request(command::WRITE, command::FUA, 0, 512, &[1; 512])).0, errno::IO);
}

#[test]
fn no_bytes_make_it_panic_or_take_much_memory() {
    let export = export(false);
    let whole = [hello(), option(option::LIST, &[]), option(option::GO, &[0; 6])].concat();
    for length in 0..whole.len() {
        let _ = told(&export, &whole[..length]);
    }
    let begin = [hello(), option(option::EXPORT_NAME, &[])].concat();
    let wrong = |more: &[u8]| {
        let (done, _) = told(&export, &[&begin[..], more].concat());
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::InvalidData);
    };
    wrong(&[0; 28]);
    wrong(&request(command::WRITE, 0, 0, u32::MAX, &[]));
    let (done, _) = told(&export, &[&hello()[..], &option(option::GO, &[])[..12], &[0xFF; 4]].concat());
    assert_eq!(done.unwrap_err().kind(), io::ErrorKind::InvalidData);
    let whole = [&begin[..], &request(command::READ, 0, 0, 512, &[])].concat();
    for at in 0..whole.len() {
        for flip in [1, 2, 16, 128, 255] {
            let mut sent = whole.clone();
            sent[at] ^= flip;
            let _ = told(&export, &sent);
        }
    }
}

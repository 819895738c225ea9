mod settings;
use std::time::Instant;
#[test]
fn slow() {
    let get = |n: &str| std::env::var(n).unwrap();
    let name = settings::NAMES.into_iter().find(|n| *n == get("PLATTER_VOLUME")).unwrap();
    let first: u64 = get("PLATTER_SEED").parse().unwrap();
    let count: u64 = get("PLATTER_SCHEDULES").parse().unwrap();
    let setting = settings::setting(name);
    let start = Instant::now();
    let mut sum = [0.0f64; 2];
    let mut found = 0;
    for seed in first..first + count {
        let s = Instant::now();
        let out = platter_testing::simulation::run(&setting, seed);
        let t = s.elapsed().as_secs_f64();
        sum[usize::from(t > 0.05)] += t;
        if let Err(text) = out {
            found += 1;
            println!("{name} FOUND seed {seed} {}", text.lines().next().unwrap());
        }
        if t > 0.2 {
            println!("{name} slow {seed} {t:.2}");
        }
    }
    println!(
        "{name} {count}: {found} found, {:.1} s, quick {:.1} slow {:.1}",
        start.elapsed().as_secs_f64(),
        sum[0],
        sum[1]
    );
}
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::*;
use std::sync::Arc;
#[test]
fn crowd() {
    for (count, size) in [(260u64, 16u64 << 20), (1000, 16 << 20), (2000, 64 << 20)] {
        for forget in [false, true] {
            let device = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
            let format = platter_formats::by_name("ntfs").unwrap();
            let options = FormatOptions { cluster: Some(4096), serial: Some(1), ..FormatOptions::default() };
            format.make(&*device, &options, &Silent).unwrap();
            let system = format.open(device.clone(), OpenOptions::default()).unwrap();
            let mut nodes = vec![];
            let name = |n| Name::from(format!("{n:-<180}").as_str());
            for n in 0..count {
                let node = system.create(Node::ROOT, &name(n), Kind::File).unwrap();
                system.write(node, 0, &[0; 4096]).unwrap();
                system.forget(node, 1);
            }
            system.sync_all().unwrap();
            let mut failed = None;
            for n in 0..count {
                let node = system.lookup(Node::ROOT, &name(n)).unwrap();
                if let Err(e) = system.write(node, 0, &[1; 512]) {
                    failed = Some((n, e));
                    break;
                }
                if forget { system.forget(node, 1) } else { nodes.push(node) }
            }
            println!("{count} {size} forget {forget}: {failed:?} {:?}", system.sync_all());
        }
    }
}

//! Tests of frames. Decoding returns what was encoded, anything else is refused, and changed bytes
//! are an error.
//!
//! Random tests print their seed. `ECITON_FUZZ_SECONDS=600 cargo test --release -p eciton-tensor
//! --test frame` runs the mutation fuzz for ten minutes; `ECITON_SEED=n` replays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Numbers;
use eciton_tensor::frame::{
    Decoded, Encoding, Frame, Header, Kind, MAX_META_BYTES, MAX_PARTS, PartInfo, RowSink, Writer,
};
use eciton_tensor::{Buffer, Error, Matrix, SparseRows, View, ViewMut, stream};
use half::bf16;

fn seed(default: u64) -> u64 {
    std::env::var("ECITON_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn fuzz_time() -> Duration {
    let seconds = std::env::var("ECITON_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.0))
}

/// Content from which a part was made.
#[derive(Debug)]
enum Made {
    Dense { rows: usize, columns: usize, values: Vec<f32>, encoding: Encoding },
    Sparse { rows: Arc<SparseRows>, first: usize, count: usize, encoding: Encoding },
    Ids(Vec<u32>),
}

/// Returns an f32 with any bits, including NaNs and infinities.
fn any_value(numbers: &mut Numbers) -> f32 {
    match numbers.below(8) {
        0 => f32::from_bits(numbers.next() as u32),
        1 => [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-42][numbers.below(6)],
        _ => numbers.value(),
    }
}

fn any_sparse(numbers: &mut Numbers) -> SparseRows {
    let (rows, columns) = (numbers.below(20), 1 + numbers.below(40));
    let (mut offsets, mut indices) = (vec![0u64], Vec::new());
    for _ in 0..rows {
        indices.extend((0..columns as u32).filter(|_| numbers.below(4) == 0));
        offsets.push(indices.len() as u64);
    }
    let values: Vec<f32> = (0..indices.len()).map(|_| any_value(numbers)).collect();
    SparseRows::new(columns as u32, offsets, indices, values).unwrap()
}

fn any_part(numbers: &mut Numbers) -> Made {
    let encoding = [Encoding::F32, Encoding::Bf16][numbers.below(2)];
    match numbers.below(4) {
        0 => Made::Ids((0..numbers.below(30)).map(|_| numbers.next() as u32).collect()),
        1 => {
            let rows = any_sparse(numbers);
            let first = numbers.below(rows.rows() + 1);
            let count = numbers.below(rows.rows() - first + 1);
            Made::Sparse { rows: Arc::new(rows), first, count, encoding }
        }
        _ => {
            let (rows, columns) = (numbers.below(40), 1 + numbers.below(40));
            let values = (0..rows * columns).map(|_| any_value(numbers)).collect();
            Made::Dense { rows, columns, values, encoding }
        }
    }
}

fn dense(rows: usize, columns: usize, values: &[f32]) -> Matrix {
    Matrix::from(Buffer::from_rows(rows, columns, values).unwrap().read(0..rows).unwrap())
}

fn written<'a>(numbers: &mut Numbers, made: &'a [Made], meta: Vec<u8>) -> Vec<u8> {
    let mut writer = Writer::new(meta);
    for (i, part) in made.iter().enumerate() {
        let number = match part {
            Made::Dense { rows, columns, values, encoding } => match numbers.below(3) {
                0 => writer.view(View::new(values, *rows, *columns), *encoding),
                // Encoded as two views in one part.
                1 if *rows > 1 => {
                    let (a, b) = values.split_at(columns * (rows / 2));
                    let pieces = [(a, rows / 2), (b, rows - rows / 2)];
                    let views = pieces.iter().map(|(v, r)| View::<'a>::new(v, *r, *columns)).collect();
                    writer.views(views, *encoding)
                }
                _ => writer.matrix(&dense(*rows, *columns, values), *encoding),
            },
            Made::Sparse { rows, first, count, encoding } => {
                let matrix = Matrix::from(rows.clone()).slice_rows(*first, *count).unwrap();
                writer.matrix(&matrix, *encoding)
            }
            Made::Ids(ids) => writer.ids(ids),
        };
        assert_eq!(number.unwrap(), i as u32);
    }
    let expected = writer.bytes_len();
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, expected);
    bytes
}

fn coded(values: &[f32], encoding: Encoding) -> Vec<u32> {
    let code = |v: &f32| match encoding {
        Encoding::F32 => v.to_bits(),
        // A NaN becomes quiet, and preserves its sign and upper bits, like in the crate `half`.
        Encoding::Bf16 => bf16::from_f32(*v).to_f32().to_bits(),
        Encoding::Bits(_) => panic!("packed rows have a test of their own"),
    };
    values.iter().map(code).collect()
}

fn check(made: &Made, found: &Decoded, place: &str) {
    match (made, found) {
        (Made::Ids(ids), Decoded::Ids(found)) => assert_eq!(**found, **ids, "{place}"),
        (Made::Dense { rows, columns, values, encoding }, Decoded::Matrix(m @ Matrix::Dense(_))) => {
            assert_eq!(m.shape(), [*rows as u32, *columns as u32], "{place}");
            let mut out = Vec::new();
            m.read_rows(0, *rows, None, &mut out).unwrap();
            assert_eq!(coded(&out, Encoding::F32), coded(values, *encoding), "{place}");
        }
        (Made::Sparse { rows, first, count, encoding }, Decoded::Matrix(Matrix::Sparse(s))) => {
            assert_eq!((s.rows.clone(), s.data.columns()), (0..*count, rows.columns()), "{place}");
            for row in 0..*count {
                let ((columns, values), (c, v)) = (rows.row(first + row), s.data.row(row));
                assert_eq!(c, columns, "{place}, row {row}");
                assert_eq!(coded(v, Encoding::F32), coded(values, *encoding), "{place}, row {row}");
            }
        }
        other => panic!("{place}: {other:?}"),
    }
}

#[test]
fn what_goes_in_comes_out() {
    let seed = seed(41);
    println!("seed {seed}");
    for case in 0..400 {
        let numbers = &mut Numbers(seed + case);
        let made: Vec<Made> = (0..numbers.below(12)).map(|_| any_part(numbers)).collect();
        let meta: Vec<u8> = (0..numbers.below(40)).map(|_| numbers.next() as u8).collect();
        let bytes = written(numbers, &made, meta.clone());
        let place = format!("case {}", seed + case);
        let frame = Frame::parse(&bytes).unwrap_or_else(|e| panic!("{place}: {e}"));
        let header = frame.header();
        assert_eq!((&header.meta, header.parts.len()), (&meta, made.len()), "{place}");
        assert_eq!(Header::len_from_prefix(&bytes[..Header::PREFIX]).unwrap(), header.header_len);
        assert_eq!(Header::parse(&bytes[..header.header_len]).unwrap(), *header);
        for (i, made) in made.iter().enumerate() {
            check(made, &frame.part(i as u32).unwrap(), &format!("{place}, part {i}"));
            let info = &header.parts[i];
            assert_eq!(info.offset % 64, 0);
            info.verify(frame.bytes(i as u32).unwrap()).unwrap();
        }
        assert!(matches!(frame.part(made.len() as u32), Err(Error::Frame { .. })));
    }
}

/// Checks the bytes themselves, so that a change of the format is detected.
#[test]
fn the_format_is_as_documented() {
    let mut writer = Writer::new(b"{}".to_vec());
    writer.view(View::new(&[1.0, -2.5], 1, 2), Encoding::Bf16).unwrap();
    writer.ids(&[7, 0x0102_0304]).unwrap();
    let bytes = writer.finish().unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..4], b"ECF1");
    assert_eq!((word(4), long(8), word(16), word(20), word(28)), (32 + 8 + 80, 200, 2, 2, 0));
    assert_eq!(&bytes[32..40], b"{}\0\0\0\0\0\0");
    let entry = |at: usize| (bytes[at], word(at + 4), long(at + 8), long(at + 16), long(at + 24));
    assert_eq!(entry(40), (3, 2, 1, 128, 4));
    assert_eq!(entry(80), (1, 1, 2, 192, 8));
    assert_eq!(bytes[128..132], [0x80, 0x3f, 0x20, 0xc0]);
    assert_eq!(bytes[192..], [7, 0, 0, 0, 4, 3, 2, 1]);
    assert_eq!(word(40 + 32), crc32fast::hash(&bytes[128..132]));
    assert_eq!(word(24), crc32fast::hash(&[&bytes[..24], &bytes[32..120]].concat()));
}

#[test]
fn every_changed_bit_is_seen() {
    let numbers = &mut Numbers(seed(5));
    let made: Vec<Made> = (0..6).map(|_| any_part(numbers)).collect();
    let bytes = written(numbers, &made, b"{\"a\": 1}x".to_vec());
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let all = |bytes: &[u8]| -> Result<(), Error> {
            let frame = Frame::parse(bytes)?;
            (0..made.len() as u32).try_for_each(|i| frame.part(i).map(drop))
        };
        assert!(all(&changed).is_err(), "bit {at} of {}", bytes.len() * 8);
    }
    for len in 0..bytes.len() {
        assert!(matches!(Frame::parse(&bytes[..len]), Err(Error::Damaged { .. })), "cut to {len}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(Frame::parse(&longer), Err(Error::Damaged { .. })));
}

#[test]
fn limits_hold_at_the_limit() {
    let mut writer = Writer::new(vec![b' '; MAX_META_BYTES]);
    for _ in 0..MAX_PARTS {
        writer.ids(&[1]).unwrap();
    }
    assert!(matches!(writer.ids(&[1]), Err(Error::Frame { .. })), "a part too many");
    let bytes = writer.finish().unwrap();
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!(frame.header().header_len, Header::MAX_BYTES);
    assert!(matches!(frame.part(MAX_PARTS as u32 - 1), Ok(Decoded::Ids(_))));
    assert!(Writer::new(vec![b' '; MAX_META_BYTES + 1]).finish().is_err());
    // In the prefix, which must be checked before anything else.
    for (at, limit) in [(16, MAX_PARTS), (20, MAX_META_BYTES)] {
        let mut prefix = bytes[..Header::PREFIX].to_vec();
        prefix[at..at + 4].copy_from_slice(&(limit as u32 + 1).to_le_bytes());
        let error = Header::len_from_prefix(&prefix).unwrap_err();
        assert!(
            matches!(&error, Error::Frame { reason, .. } if reason.contains(&limit.to_string())),
            "{error}"
        );
    }
    assert!(matches!(
        Writer::new(vec![]).view(View::new(&[], 3, 0), Encoding::F32),
        Err(Error::Frame { .. })
    ));
}

/// Checks that a table with false claims is refused, and that memory depends on the bytes that are
/// present.
#[test]
fn claims_without_bytes_are_refused() {
    let claim =
        |kind, rows, columns, bytes_len| PartInfo { kind, rows, columns, offset: 0, bytes_len, crc32: 0 };
    let dense = Kind::Rows(Encoding::F32);
    let huge = u64::from(u32::MAX);
    for part in [
        claim(dense, huge, 1 << 20, (huge * 4) << 20),
        claim(dense, huge, u32::MAX, 12),
        claim(dense, huge, 0, 0),
        claim(dense, u64::MAX, 4, 0),
        claim(Kind::Rows(Encoding::Bf16), huge + 1, 1, 2 * (huge + 1)),
        claim(Kind::Ids, huge, 1, huge * 4),
        claim(Kind::Ids, 1, 2, 4),
        claim(Kind::Sparse(Encoding::F32), huge, 9, (huge + 1) * 4),
        claim(Kind::Sparse(Encoding::F32), u64::MAX, 9, 4),
        claim(Kind::Sparse(Encoding::Bf16), 0, 9, 4 + 5),
        claim(Kind::Sparse(Encoding::Bf16), 3, 9, 0),
    ] {
        let error = part.decode(&[0; 12]).unwrap_err();
        assert!(matches!(error, Error::Frame { .. } | Error::Damaged { .. }), "{part:?}: {error}");
        let (sender, _arriving) = stream::channel(0, 1).unwrap();
        if let Ok(mut sink) = RowSink::new(&part, sender) {
            assert!(sink.push(&[0; 12]).and_then(|()| sink.finish()).is_err(), "{part:?}");
        }
    }
    // Correct lengths with malformed rows: descending offsets, and a column out of range.
    for (offsets, indices) in
        [([0u32, 2, 1], [0u32, 1]), ([0, 1, 2], [0, 5]), ([1, 1, 2], [0, 1]), ([0, 2, 2], [1, 1])]
    {
        let words: Vec<u32> = offsets.into_iter().chain(indices).chain([0, 0]).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut part = claim(Kind::Sparse(Encoding::F32), 2, 5, bytes.len() as u64);
        part.crc32 = crc32fast::hash(&bytes);
        assert!(part.decode(&bytes).is_err(), "{offsets:?} {indices:?}");
    }
}

#[test]
fn a_run_of_rows_is_a_range_of_bytes() {
    let numbers = &mut Numbers(seed(3));
    let values = numbers.values(50 * 7);
    for encoding in [Encoding::F32, Encoding::Bf16] {
        let mut writer = Writer::new(Vec::new());
        writer.ids(&[1, 2, 3]).unwrap();
        writer.view(View::new(&values, 50, 7), encoding).unwrap();
        let bytes = writer.finish().unwrap();
        let part = &Header::parse(&bytes).unwrap().parts[1];
        let range = part.byte_range(10..30).unwrap();
        let mut some = PartInfo { rows: 20, bytes_len: range.end - range.start, ..part.clone() };
        let coded_rows = &bytes[range.start as usize..range.end as usize];
        some.crc32 = crc32fast::hash(coded_rows);
        let made = Made::Dense { rows: 20, columns: 7, values: values[70..210].to_vec(), encoding };
        check(&made, &some.decode(coded_rows).unwrap(), "rows 10..30");
        assert_eq!(part.byte_range(0..50).unwrap(), part.offset..part.offset + part.bytes_len);
        assert_eq!(part.byte_range(50..50).map(|r| r.end - r.start), Some(0));
        assert!(part.byte_range(40..51).is_none());
        // Decoding into existing rows.
        let buffer = Buffer::zeroed(20, 7).unwrap();
        let all = &bytes[part.offset as usize..];
        part.copy_rows(all, 10, &mut buffer.write(0..20).unwrap().view_mut()).unwrap();
        assert_eq!(coded(&buffer.to_vec().unwrap(), Encoding::F32), coded(&values[70..210], encoding));
        assert!(part.copy_rows(all, 31, &mut buffer.write(0..20).unwrap().view_mut()).is_err());
    }
}

#[test]
fn streaming_is_decoding() {
    let seed = seed(90);
    println!("seed {seed}");
    for case in 0..60u64 {
        let numbers = &mut Numbers(seed + case);
        let columns = 1 + numbers.below(200);
        let rows = numbers.below(if case % 3 == 0 { 20 } else { 600_000 / columns });
        let values = numbers.values(rows * columns);
        let encoding = [Encoding::F32, Encoding::Bf16][case as usize % 2];
        let mut writer = Writer::new(Vec::new());
        writer.view(View::new(&values, rows, columns), encoding).unwrap();
        let bytes = writer.finish().unwrap();
        let frame = Frame::parse(&bytes).unwrap();
        let (part, coded_rows) = (&frame.header().parts[0], frame.bytes(0).unwrap());
        let (mut sink, arriving) = RowSink::channel(part).unwrap();
        let mut rest = coded_rows;
        while !rest.is_empty() {
            let most = [7, 4096, 1 << 20][numbers.below(3)];
            let (now, later) = rest.split_at((1 + numbers.below(most)).min(rest.len()));
            sink.push(now).unwrap();
            rest = later;
            if later.is_empty() && rows > 0 {
                // No reader may finish before the last bytes were compared with the checksum.
                let there = arriving.wait(rows, Some(Duration::ZERO));
                assert!(matches!(there, Err(Error::NotArrived { timed_out: true, .. })), "case {case}");
            }
        }
        sink.finish().unwrap();
        assert_eq!(arriving.wait(rows, Some(Duration::ZERO)).unwrap(), rows);
        let made = Made::Dense { rows, columns, values, encoding };
        check(&made, &Decoded::Matrix(Matrix::from(arriving)), &format!("case {}", seed + case));
        check(&made, &frame.part(0).unwrap(), "whole");
    }
}

#[test]
fn readers_of_a_broken_stream_see_a_failure() {
    let values: Vec<f32> = (0..300_000).map(|v| v as f32).collect();
    let mut writer = Writer::new(Vec::new());
    writer.view(View::new(&values, 3000, 100), Encoding::F32).unwrap();
    let mut bytes = writer.finish().unwrap();
    let part = Header::parse(&bytes).unwrap().parts[0].clone();
    let data = bytes.split_off(part.offset as usize);
    let broken = |arriving: &stream::Arriving, why: &str| match arriving.wait(3000, Some(Duration::ZERO)) {
        Err(Error::NotArrived { timed_out: false, reason, .. }) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{why}: {other:?}"),
    };
    // Too few bytes.
    let (mut sink, arriving) = RowSink::channel(&part).unwrap();
    sink.push(&data[..data.len() - 1]).unwrap();
    assert!(arriving.wait(1, Some(Duration::ZERO)).unwrap() >= 1, "the first rows are there already");
    assert!(matches!(sink.finish(), Err(Error::Damaged { .. })));
    broken(&arriving, "1199999 of 1200000 bytes");
    // Too many bytes.
    let (mut sink, arriving) = RowSink::channel(&part).unwrap();
    sink.push(&data).unwrap();
    assert!(matches!(sink.push(&[0]), Err(Error::Damaged { .. })));
    assert!(sink.push(&[]).is_err() && sink.finish().is_err(), "it stays broken");
    broken(&arriving, "1200001 of 1200000 bytes");
    // A change in the first row, which readers have already seen.
    let mut changed = data.clone();
    changed[2] ^= 1;
    let (mut sink, arriving) = RowSink::channel(&part).unwrap();
    sink.push(&changed).unwrap();
    assert!(matches!(sink.finish(), Err(Error::Damaged { .. })));
    broken(&arriving, "CRC-32");
    // A sink that is dropped, and one that fails.
    let (mut sink, arriving) = RowSink::channel(&part).unwrap();
    sink.push(&data[..500_000]).unwrap();
    drop(sink);
    broken(&arriving, "500000 of 1200000 bytes");
    let (sink, arriving) = RowSink::channel(&part).unwrap();
    sink.fail("the store went away");
    broken(&arriving, "the store went away");
    // A stream of another size.
    let (sender, arriving) = stream::channel(2999, 100).unwrap();
    let mut sink = RowSink::new(&part, sender).unwrap();
    assert!(sink.push(&data).and_then(|()| sink.finish()).is_err());
    drop(arriving);
}

#[test]
fn rows_that_are_still_arriving_are_not_waited_for() {
    let (mut sender, arriving) = stream::channel(2, 2).unwrap();
    let matrix = Matrix::from(arriving);
    sender.send(&[1.0, 2.0]).unwrap();
    let begun = Instant::now();
    let refused = Writer::new(Vec::new()).matrix(&matrix, Encoding::F32);
    assert!(matches!(refused, Err(Error::NotArrived { .. })) && begun.elapsed() < Duration::from_secs(5));
    sender.send(&[3.0, 4.0]).unwrap();
    let mut writer = Writer::new(Vec::new());
    writer.matrix(&matrix, Encoding::F32).unwrap();
    let bytes = writer.finish().unwrap();
    let made = Made::Dense { rows: 2, columns: 2, values: vec![1., 2., 3., 4.], encoding: Encoding::F32 };
    check(&made, &Frame::parse(&bytes).unwrap().part(0).unwrap(), "all there");
}

#[test]
fn a_late_meta_fills_its_room() {
    let mut writer = Writer::new(b"early".to_vec());
    writer.ids(&[1]).unwrap();
    let bytes = writer.finish_late(9, || b"late".to_vec()).unwrap();
    assert_eq!(Frame::parse(&bytes).unwrap().header().meta, b"late     ");
    let mut writer = Writer::new(Vec::new());
    writer.ids(&[1]).unwrap();
    assert!(matches!(writer.finish_late(3, || b"late".to_vec()), Err(Error::Frame { .. })));
}

/// Changes bytes and repairs the checksums, so that the checks after the checksum are tested.
fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    for _ in 0..1 + numbers.below(4) {
        let header = 32 + 40 * 8;
        let front = numbers.below(3) > 0;
        let at = numbers.below(if front { header.min(bytes.len()) } else { bytes.len() }.max(1));
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.extend((0..numbers.below(99)).map(|_| 0)),
            2 if at + 8 <= bytes.len() => {
                let edge = [0, 1, u64::from(u32::MAX), u64::MAX, 1 << 32, 1 << 40, 1 << 63][numbers.below(7)];
                bytes[at & !3..][..4].copy_from_slice(&edge.to_le_bytes()[..4]);
                if numbers.below(2) == 0 {
                    let at = (at & !7).min(bytes.len() - 8);
                    bytes[at..at + 8].copy_from_slice(&edge.to_le_bytes());
                }
            }
            _ if at < bytes.len() => bytes[at] = numbers.next() as u8,
            _ => {}
        }
    }
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()))
    };
    let header = word(bytes, 4) as usize;
    if numbers.below(8) == 0 || header > bytes.len() || header < 32 {
        return;
    }
    let table = header.saturating_sub(40 * word(bytes, 16).min(100) as usize).max(32);
    for entry in (table..header.saturating_sub(39)).step_by(40) {
        let start = word(bytes, entry + 16) as usize;
        let end = start.saturating_add(word(bytes, entry + 24) as usize);
        if let Some(data) = bytes.get(start..end) {
            let crc = crc32fast::hash(data);
            bytes[entry + 32..entry + 36].copy_from_slice(&crc.to_le_bytes());
        }
    }
    if numbers.below(2) == 0 {
        let total = (bytes.len() as u64).to_le_bytes();
        bytes[8..16].copy_from_slice(&total);
    }
    let crc = crc32fast::hash(&[&bytes[..24], &bytes[32..header]].concat());
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn mutated_frames_are_refused_or_read() {
    let (seed, until) = (seed(1_000), Instant::now() + fuzz_time());
    let (mut case, mut read, mut parts) = (0, 0u64, 0u64);
    while Instant::now() < until || case < 2_000 {
        let numbers = &mut Numbers(seed + case);
        let made: Vec<Made> = (0..numbers.below(5)).map(|_| any_part(numbers)).collect();
        let mut bytes = written(numbers, &made, b"{}".to_vec());
        mutate(numbers, &mut bytes);
        // A panic reports the case. Memory is bounded by the number of bytes.
        let result = std::panic::catch_unwind(|| {
            let Ok(frame) = Frame::parse(&bytes) else { return (0, 0) };
            let mut whole = 0;
            for (i, part) in frame.header().parts.iter().enumerate() {
                let data = frame.bytes(i as u32).unwrap();
                if let Ok(decoded) = frame.part(i as u32) {
                    whole += 1;
                    assert!(decoded.bytes() <= 64 + 16 * data.len() as u64, "{part:?}");
                }
                if matches!(part.kind, Kind::Rows(_)) {
                    let (mut sink, arriving) = RowSink::channel(part).unwrap();
                    let end = sink.push(data).and_then(|()| sink.finish());
                    let there = arriving.wait(part.rows as usize, Some(Duration::ZERO));
                    assert!(part.rows == 0 || end.is_ok() == there.is_ok(), "{part:?}");
                }
            }
            (1, whole)
        });
        let (f, p) = result.unwrap_or_else(|_| panic!("case {}", seed + case));
        (read, parts, case) = (read + f, parts + p, case + 1);
    }
    println!("seed {seed}: {case} cases, {read} frames and {parts} parts were still whole");
    assert!(read > 0 && parts > 0 && read < case, "the fuzz reaches both sides");
}

/// Checks that packed rows are the same when they are decoded at once, row by row, and as they
/// arrive.
#[test]
fn packed_rows_come_back_alike() {
    use eciton_tensor::frame::Packed;
    use eciton_tensor::signs::mean_absolute;

    let (rows, columns) = (3000, 70);
    let value = |at: usize| ((at * 7919 % 1000) as f32 - 500.0) / 200.0;
    let values: Vec<f32> = (0..rows * columns).map(value).collect();
    let buffer = Buffer::from_rows(rows, columns, &values).unwrap();
    let matrix = Matrix::from(buffer.read(0..rows).unwrap());
    let read = |matrix: &Matrix| {
        let mut values = Vec::new();
        matrix.read_rows(0, rows, None, &mut values).unwrap();
        values
    };
    for within in [false, true] {
        let mut writer = Writer::new(Vec::new());
        let packed = Packed::from_matrix(&matrix, within).unwrap().unwrap();
        let (encoding, len) = (packed.encoding(), packed.bytes_len());
        writer.packed(packed).unwrap();
        assert!(writer.matrix(&matrix, encoding).is_err(), "numbers are no signs");
        let bytes = writer.finish().unwrap();
        let frame = Frame::parse(&bytes).unwrap();
        let info = frame.header().part(0).unwrap();
        assert_eq!((info.kind, info.bytes_len), (Kind::Rows(encoding), len));
        let Decoded::Matrix(found) = frame.part(0).unwrap() else { panic!() };
        let found = read(&found);
        for (own, found) in values.chunks(columns).zip(found.chunks(columns)) {
            assert_eq!(mean_absolute(own).to_bits(), mean_absolute(found).to_bits());
            assert!(own.iter().zip(found).all(|(a, b)| (*a > 0.0, *a == 0.0) == (*b > 0.0, *b == 0.0)));
            assert!(!within || own.iter().zip(found).all(|(a, b)| (a.abs() <= 1.0) == (b.abs() <= 1.0)));
        }
        let part = frame.bytes(0).unwrap();
        let (mut sink, arriving) = RowSink::channel(info).unwrap();
        part.chunks(1000).for_each(|piece| sink.push(piece).unwrap());
        sink.finish().unwrap();
        let streamed = read(&Matrix::from(arriving));
        assert!(streamed == found, "as they arrive");
        let mut some = vec![0.0; 5 * columns];
        info.copy_rows(part, 100, &mut ViewMut::new(&mut some, 5, columns)).unwrap();
        assert!(some == found[100 * columns..105 * columns], "some rows");
    }
    let sparse = SparseRows::new(2, vec![0u64, 1], vec![1u32], vec![1.0f32]).unwrap();
    let sparse = Matrix::from(Arc::new(sparse));
    assert!(Packed::from_matrix(&sparse, false).unwrap().is_none());
}

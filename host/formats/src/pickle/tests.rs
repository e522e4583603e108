#![allow(clippy::unwrap_used, clippy::panic)]

use eciton_graph::error::Error;
use eciton_graph::random::SplitMix64;

use super::*;

/// Pickles of `{'a': [1, -2, 70000, 1.5], 'b': None}` in three protocols, as Python 3 writes them.
const PLAIN: [&[u8]; 3] = [
    b"(dp0\nVa\np1\n(lp2\nI1\naI-2\naI70000\naF1.5\nasVb\np3\nNs.",
    b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00G?\xf8\
      \x00\x00\x00\x00\x00\x00eX\x01\x00\x00\x00bq\x03Nu.",
    b"\x80\x04\x95\x27\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\
      Jp\x11\x01\x00G?\xf8\x00\x00\x00\x00\x00\x00e\x8c\x01b\x94Nu.",
];

fn parse(bytes: &[u8]) -> Result<Pickle<'_>> {
    Pickle::parse(bytes, "a.pickle")
}

fn refusal(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

/// Returns the bytes that Python 3 writes for `numpy.array([[1, 2], [3, 4]], dtype='<i2')` at
/// protocol 2.
pub(crate) fn small_array() -> Vec<u8> {
    let mut out = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x00cnumpy\nndarray\nq\x01K\x00\
        \x85q\x02c_codecs\nencode\nq\x03X\x01\x00\x00\x00bq\x04X\x06\x00\x00\x00latin1q\x05\x86q\x06\
        Rq\x07\x87q\x08Rq\x09(K\x01K\x02K\x02\x86q\x0acnumpy\ndtype\nq\x0bX\x02\x00\x00\x00i2q\x0c\
        K\x00K\x01\x87q\x0dRq\x0e(K\x03X\x01\x00\x00\x00<q\x0fNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff\
        K\x00tq\x10b\x89h\x03X\x08\x00\x00\x00"
        .to_vec();
    out.extend(b"\x01\x00\x02\x00\x03\x00\x04\x00h\x05\x86q\x11Rq\x12tq\x13b.");
    out
}

#[test]
fn plain_data_in_every_protocol() {
    for bytes in PLAIN {
        let pickle = parse(bytes).unwrap();
        let Value::Dict(dict) = pickle.root() else { panic!("{:?}", pickle.root()) };
        assert!(matches!(dict.get("b"), Some(Value::None)));
        let Some(Value::List(list)) = dict.get("a") else { panic!("no list") };
        let numbers: Vec<_> = list.iter().map(|v| v.integer()).collect();
        assert_eq!(numbers, [Some(1), Some(-2), Some(70000), None]);
        assert!(matches!(list.iter().last(), Some(Value::Float(v)) if v == 1.5));
    }
}

#[test]
fn an_array_by_way_of_the_latin1_encoder() {
    let bytes = small_array();
    let pickle = parse(&bytes).unwrap();
    let array = pickle.root().array("a").unwrap();
    assert_eq!((array.shape.as_slice(), array.to_i64().unwrap()), (&[2, 2][..], vec![1, 2, 3, 4]));
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    for bytes in PLAIN.into_iter().chain([small_array().as_slice()]) {
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn other_globals_are_refused_by_name() {
    // os.system('true') in protocols 0, 2 and 4, and by the opcodes INST, OBJ and EXT.
    let texts = [
        refusal(b"cos\nsystem\n(S'true'\ntR."),
        refusal(b"\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03."),
        refusal(b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R."),
        refusal(b"c__builtin__\neval\n."),
        refusal(b"cnumpy.core.multiarray\nfromfile\n."),
        refusal(b"cscipy.sparse.csr\nos\n."),
    ];
    for (text, name) in texts.iter().zip([
        "os.system",
        "posix.system",
        "posix.system",
        "__builtin__.eval",
        "fromfile",
        "csr.os",
    ]) {
        assert!(text.contains(name) && text.contains("refuses"), "{text}");
    }
    assert!(refusal(b"(S'true'\nios\nsystem\n.").contains("opcode 0x69"));
    assert!(refusal(b"(cnumpy\nndarray\no.").contains("opcode 0x6f"));
    assert!(refusal(b"\x82\x01.").contains("opcode 0x82"));
    assert!(refusal(b"Pid\n.").contains("opcode 0x50"));
}

#[test]
fn known_globals_in_other_ways_are_refused() {
    for bytes in [
        &b"cnumpy\nndarray\n(tR."[..],
        b"c__builtin__\nlist\n((lp0\ntR.",
        b"ccollections\ndefaultdict\n(cnumpy\ndtype\ntR.",
        b"ccopy_reg\n_reconstructor\n(cnumpy\nndarray\nc__builtin__\nobject\nNtR.",
        b"c_codecs\nencode\n(I1\ntR.",
        b"cnumpy\ndtype\n(S'i4'\ntR(I3\nS'<'\nNS'field'\nNtb.",
        b"(lp0\n(dp1\nb.",
        b"I1\n(dp1\nb.",
        b"]h\x09.",
        b"(.",
        b"\x80\x05N.",
        b"\x8a\xff.",
    ] {
        assert!(matches!(parse(bytes), Err(Error::Malformed { .. })), "{bytes:?}");
    }
}

#[test]
fn arrays_whose_cells_do_not_fit_are_refused() {
    let good = small_array();
    let at = good.windows(4).position(|w| w == b"K\x02K\x02").unwrap();
    let mut bad = good.clone();
    bad[at + 1] = 3;
    assert!(refusal(&bad).contains("12 bytes of cells"), "{}", refusal(&bad));
}

#[test]
fn cycles_and_sharing_cost_nothing() {
    // A list that holds itself.
    let pickle = parse(b"(lp0\ng0\na.").unwrap();
    assert!(matches!(pickle.root(), Value::List(list) if list.len() == 1));
    // Lists of lists of lists, ten of the one below in each: 10^40 leaves if they were written out.
    let mut bytes = b"\x80\x02]q\x00".to_vec();
    for level in 0..40u8 {
        bytes.extend(b"](");
        for _ in 0..10 {
            bytes.extend([b'h', level]);
        }
        bytes.extend([b'e', b'q', level + 1]);
    }
    bytes.push(b'.');
    assert!(parse(&bytes).is_ok());
    // Depth without end: no recursion, so nothing happens.
    let mut deep = vec![b'('; 100_000];
    deep.extend(vec![b't'; 100_000]);
    deep.push(b'.');
    assert!(parse(&deep).is_ok());
}

#[test]
fn copies_of_a_remembered_text_are_counted() {
    let mut bytes = b"\x80\x02c_codecs\nencode\nq\x00X".to_vec();
    let length = 1usize << 20;
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(vec![b'x'; length]);
    bytes.extend(b"q\x010");
    for _ in 0..1100 {
        bytes.extend(b"h\x00h\x01\x85R0");
    }
    bytes.extend(b"N.");
    // The first global is still on the stack; 1,100 copies of a megabyte pass the limit.
    assert!(refusal(&bytes).contains("pickle copies"));
}

#[test]
fn mutations_never_panic() {
    let seed = 3;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let sources: Vec<Vec<u8>> = PLAIN.iter().map(|p| p.to_vec()).chain([small_array()]).collect();
    for round in 0..20_000u64 {
        let mut bytes = sources[round as usize % sources.len()].clone();
        for _ in 0..1 + random.below(5) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.next_u64() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"(.tRbaeus\x85\x86\x87h2"[random.below(14) as usize]),
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        if let Ok(pickle) = parse(&bytes) {
            drop(pickle.root().sparse_rows("a"));
            drop(pickle.root().array("a").map(|a| a.to_f32()));
        }
    }
}

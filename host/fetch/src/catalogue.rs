//! Catalogue of public data sets, with the addresses, lengths and checksums of their files, their
//! licences, and publications to cite.
//!
//! Every address contains a commit hash, so its content does not change. Every file has a SHA-256.
//! Data sets without a known checksum are not listed.

use crate::error::{Error, Result};

/// Public data set with its description, licence and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    /// Name of the data set on the command line, for instance `citeseer`.
    pub name: &'static str,
    /// One-line description, for instance `3,327 papers, 9,104 edges`. Edges are counted as
    /// directed, so an undirected edge counts as two.
    pub description: &'static str,
    /// Name of the file layout, after the project that introduced it, for instance `Planetoid`.
    pub layout: &'static str,
    /// Subfolder of the data set's files in the cache and on a mirror. Several data sets may share
    /// it.
    pub folder: &'static str,
    /// Name of the data set within a folder that several data sets share, or the name of its only
    /// file. `None` if the folder alone identifies the data set.
    pub member: Option<&'static str>,
    /// Common prefix of the files' addresses, with a final `/`. [`File::path`] is the rest of an
    /// address.
    pub base: &'static str,
    /// Licence of the data set. If the publisher states none for the data, the text says so.
    pub licence: &'static str,
    /// Publication to cite when results on this data set are published.
    pub citation: &'static str,
    /// All files of the data set, each with its length and checksum.
    pub files: &'static [File],
}

/// File of a data set, with its address, length and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Name of the file in the cache folder.
    pub name: &'static str,
    /// Path of the file relative to [`Set::base`].
    pub path: &'static str,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

impl Set {
    /// Returns the total length of the set's files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Returns all data sets of the catalogue, in the order in which `eciton data list` prints them.
pub fn sets() -> &'static [&'static Set] {
    SETS
}

/// Returns the data set called `name`, ignoring case. An underscore is equivalent to a hyphen.
///
/// # Errors
/// Returns [`Error::UnknownSet`] if no data set has this name. The error suggests the most similar
/// name.
pub fn find(name: &str) -> Result<&'static Set> {
    let wanted = name.to_ascii_lowercase().replace('_', "-");
    if let Some(set) = SETS.iter().find(|set| set.name == wanted) {
        return Ok(set);
    }
    let likeness = |set: &&&Set| strsim::jaro_winkler(set.name, &wanted);
    let nearest = SETS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Err(Error::UnknownSet {
        name: name.to_owned(),
        nearest: nearest.filter(|set| likeness(set) > 0.7).map(|set| set.name.to_owned()),
        known: SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", "),
    })
}

const SETS: &[&Set] = &[
    &CORA,
    &CITESEER,
    &PUBMED,
    &CORA_WHOLE,
    &CITESEER_WHOLE,
    &AMAZON_PHOTO,
    &COAUTHOR_CS,
    &FACEBOOK,
    &MINESWEEPER,
];

const CORA: Set = Set {
    name: "cora",
    description: "2,708 papers, 10,556 edges, 1,433 words, 7 classes (built in as well)",
    layout: "Planetoid",
    folder: "planetoid",
    member: Some("cora"),
    base: "https://raw.githubusercontent.com/tkipf/gcn/39a4089fe72ad9f055ed6fdb9746abdcfebc4d81/",
    licence: "the repository: MIT; the data: none stated",
    citation: "Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
    files: &[
        File {
            name: "ind.cora.x",
            path: "gcn/data/ind.cora.x",
            bytes: 22_119,
            sha256: "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        },
        File {
            name: "ind.cora.y",
            path: "gcn/data/ind.cora.y",
            bytes: 4_054,
            sha256: "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        },
        File {
            name: "ind.cora.tx",
            path: "gcn/data/ind.cora.tx",
            bytes: 148_025,
            sha256: "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        },
        File {
            name: "ind.cora.ty",
            path: "gcn/data/ind.cora.ty",
            bytes: 28_135,
            sha256: "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        },
        File {
            name: "ind.cora.allx",
            path: "gcn/data/ind.cora.allx",
            bytes: 257_305,
            sha256: "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        },
        File {
            name: "ind.cora.ally",
            path: "gcn/data/ind.cora.ally",
            bytes: 47_959,
            sha256: "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        },
        File {
            name: "ind.cora.graph",
            path: "gcn/data/ind.cora.graph",
            bytes: 59_847,
            sha256: "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        },
        File {
            name: "ind.cora.test.index",
            path: "gcn/data/ind.cora.test.index",
            bytes: 5_000,
            sha256: "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
        },
    ],
};

const CITESEER: Set = Set {
    name: "citeseer",
    description: "3,327 papers, 9,104 edges, 3,703 words, 6 classes",
    layout: "Planetoid",
    folder: "planetoid",
    member: Some("citeseer"),
    base: "https://raw.githubusercontent.com/tkipf/gcn/39a4089fe72ad9f055ed6fdb9746abdcfebc4d81/",
    licence: "the repository: MIT; the data: none stated",
    citation: "Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
    files: &[
        File {
            name: "ind.citeseer.x",
            path: "gcn/data/ind.citeseer.x",
            bytes: 31_087,
            sha256: "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        },
        File {
            name: "ind.citeseer.y",
            path: "gcn/data/ind.citeseer.y",
            bytes: 3_014,
            sha256: "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        },
        File {
            name: "ind.citeseer.tx",
            path: "gcn/data/ind.citeseer.tx",
            bytes: 260_321,
            sha256: "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        },
        File {
            name: "ind.citeseer.ty",
            path: "gcn/data/ind.citeseer.ty",
            bytes: 24_135,
            sha256: "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        },
        File {
            name: "ind.citeseer.allx",
            path: "gcn/data/ind.citeseer.allx",
            bytes: 595_021,
            sha256: "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        },
        File {
            name: "ind.citeseer.ally",
            path: "gcn/data/ind.citeseer.ally",
            bytes: 55_623,
            sha256: "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        },
        File {
            name: "ind.citeseer.graph",
            path: "gcn/data/ind.citeseer.graph",
            bytes: 61_987,
            sha256: "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        },
        File {
            name: "ind.citeseer.test.index",
            path: "gcn/data/ind.citeseer.test.index",
            bytes: 5_000,
            sha256: "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
        },
    ],
};

const PUBMED: Set = Set {
    name: "pubmed",
    description: "19,717 papers, 88,648 edges, 500 words, 3 classes",
    layout: "Planetoid",
    folder: "planetoid",
    member: Some("pubmed"),
    base: "https://raw.githubusercontent.com/tkipf/gcn/39a4089fe72ad9f055ed6fdb9746abdcfebc4d81/",
    licence: "the repository: MIT; the data: none stated",
    citation: "Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
    files: &[
        File {
            name: "ind.pubmed.x",
            path: "gcn/data/ind.pubmed.x",
            bytes: 23_172,
            sha256: "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        },
        File {
            name: "ind.pubmed.y",
            path: "gcn/data/ind.pubmed.y",
            bytes: 854,
            sha256: "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        },
        File {
            name: "ind.pubmed.tx",
            path: "gcn/data/ind.pubmed.tx",
            bytes: 405_505,
            sha256: "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        },
        File {
            name: "ind.pubmed.ty",
            path: "gcn/data/ind.pubmed.ty",
            bytes: 12_135,
            sha256: "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        },
        File {
            name: "ind.pubmed.allx",
            path: "gcn/data/ind.pubmed.allx",
            bytes: 7_578_385,
            sha256: "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        },
        File {
            name: "ind.pubmed.ally",
            path: "gcn/data/ind.pubmed.ally",
            bytes: 224_739,
            sha256: "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        },
        File {
            name: "ind.pubmed.graph",
            path: "gcn/data/ind.pubmed.graph",
            bytes: 471_808,
            sha256: "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        },
        File {
            name: "ind.pubmed.test.index",
            path: "gcn/data/ind.pubmed.test.index",
            bytes: 6_000,
            sha256: "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
        },
    ],
};

const CORA_WHOLE: Set = Set {
    name: "cora-whole",
    description: "Cora without published splits: 2,708 papers, 1,433 words, 7 classes",
    layout: "gnn-benchmark",
    folder: "gnn-benchmark-npz",
    member: Some("cora.npz"),
    base: "https://raw.githubusercontent.com/shchur/gnn-benchmark/1e72912a0810cdf27ae54fd589a3b43358a2b161/",
    licence: "the repository: MIT; the data: none stated",
    citation: "O. Shchur, M. Mumme, A. Bojchevski, S. Guennemann: Pitfalls of Graph Neural Network Evaluation, 2018",
    files: &[File {
        name: "cora.npz",
        path: "data/npz/cora.npz",
        bytes: 540_580,
        sha256: "068e22d90c3849b4057dfb05851741428992af058efcd4e7ebb4186f3d581de2",
    }],
};

const CITESEER_WHOLE: Set = Set {
    name: "citeseer-whole",
    description: "Citeseer without its isolated papers: 3,312 papers, 3,703 words, 6 classes",
    layout: "gnn-benchmark",
    folder: "gnn-benchmark-npz",
    member: Some("citeseer.npz"),
    base: "https://raw.githubusercontent.com/shchur/gnn-benchmark/1e72912a0810cdf27ae54fd589a3b43358a2b161/",
    licence: "the repository: MIT; the data: none stated",
    citation: "O. Shchur, M. Mumme, A. Bojchevski, S. Guennemann: Pitfalls of Graph Neural Network Evaluation, 2018",
    files: &[File {
        name: "citeseer.npz",
        path: "data/npz/citeseer.npz",
        bytes: 1_348_784,
        sha256: "280278b21b434c047922e8389518861416fb3ad39389c27865ff0e6bbb0aaab7",
    }],
};

const AMAZON_PHOTO: Set = Set {
    name: "amazon-photo",
    description: "7,650 goods, 238,162 edges, 745 words, 8 classes",
    layout: "GraphData",
    folder: "graphdata-npz",
    member: Some("amazon_photo.npz"),
    base: "https://raw.githubusercontent.com/EdisonLeeeee/GraphData/f8022c26b917346f2a461ffec0ec5ae24b36de68/",
    licence: "the repository: MIT; the data: none stated",
    citation: "O. Shchur, M. Mumme, A. Bojchevski, S. Guennemann: Pitfalls of Graph Neural Network Evaluation, 2018",
    files: &[File {
        name: "amazon_photo.npz",
        path: "datasets/amazon_photo.npz",
        bytes: 1_772_672,
        sha256: "bdb98b54cd3125bfa69b23ba0aae84fabcb770c6727175b8f6eb1d64f3be4b2b",
    }],
};

const COAUTHOR_CS: Set = Set {
    name: "coauthor-cs",
    description: "18,333 authors, 163,788 edges, 6,805 words, 15 classes",
    layout: "GraphData",
    folder: "graphdata-npz",
    member: Some("coauthor_cs.npz"),
    base: "https://raw.githubusercontent.com/EdisonLeeeee/GraphData/f8022c26b917346f2a461ffec0ec5ae24b36de68/",
    licence: "the repository: MIT; the data: none stated",
    citation: "O. Shchur, M. Mumme, A. Bojchevski, S. Guennemann: Pitfalls of Graph Neural Network Evaluation, 2018",
    files: &[File {
        name: "coauthor_cs.npz",
        path: "datasets/coauthor_cs.npz",
        bytes: 2_800_548,
        sha256: "7b7b51bf270d341f1c4231834c58a526bb04db003fd76a6d2f51ad7d252005ed",
    }],
};

const FACEBOOK: Set = Set {
    name: "facebook",
    description: "22,470 pages, 341,646 edges, 4,714 features, 4 classes",
    layout: "MUSAE",
    folder: "musae-facebook",
    member: Some("facebook"),
    base: "https://raw.githubusercontent.com/benedekrozemberczki/MUSAE/5f901232957b6c9985d750aac48cda39a4b24285/",
    licence: "the repository: GPL-3.0; the data: none stated",
    citation: "B. Rozemberczki, C. Allen, R. Sarkar: Multi-Scale Attributed Node Embedding, 2019",
    files: &[
        File {
            name: "facebook.json",
            path: "input/features/facebook.json",
            bytes: 2_088_766,
            sha256: "ea870537646a93642a0008d38aa9bfeff02018070ba97b1f3f469d9622626436",
        },
        File {
            name: "facebook_edges.csv",
            path: "input/edges/facebook_edges.csv",
            bytes: 1_882_610,
            sha256: "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022",
        },
        File {
            name: "facebook_target.csv",
            path: "input/target/facebook_target.csv",
            bytes: 1_177_912,
            sha256: "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd",
        },
    ],
};

const MINESWEEPER: Set = Set {
    name: "minesweeper",
    description: "10,000 cells, 78,804 edges, 7 features, 2 classes, 10 published splits",
    layout: "heterophilous",
    folder: "heterophilous",
    member: Some("minesweeper.npz"),
    base: "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/a431395582e929d88271309716bea4fe24ce6318/",
    licence: "the repository: MIT; the data: none stated",
    citation: "O. Platonov et al.: A Critical Look at the Evaluation of GNNs under Heterophily, ICLR 2023",
    files: &[File {
        name: "minesweeper.npz",
        path: "data/minesweeper.npz",
        bytes: 135_045,
        sha256: "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
    }],
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_catalogue_is_sound() {
        for set in sets() {
            assert_eq!(find(&set.name.to_uppercase().replace('-', "_")).unwrap(), *set);
            assert!(set.base.starts_with("https://") && set.base.ends_with('/'), "{}", set.base);
            // Pinned to a commit.
            assert!(set.base.split('/').any(|part| part.len() == 40), "{}", set.base);
            let line = [set.description, set.licence, set.citation, set.layout];
            assert!(line.iter().all(|text| !text.is_empty() && !text.contains('\n')));
            assert!(!set.files.is_empty());
            for file in set.files {
                assert!(file.sha256.len() == 64 && file.bytes > 0);
                assert!(file.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
                let plain =
                    |name: &str| !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
                assert!(plain(file.name) && plain(set.folder) && !file.path.starts_with('/'));
            }
        }
        let mut places: Vec<_> =
            sets().iter().flat_map(|set| set.files.iter().map(|file| (set.folder, file.name))).collect();
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!((places.len(), sets().len()), (count, 9));
    }

    #[test]
    fn a_similar_name_is_proposed() {
        let text = find("amazonphoto").unwrap_err().to_string();
        assert!(text.contains("did you mean `amazon-photo`") && text.contains("minesweeper"), "{text}");
        assert!(!find("zzz").unwrap_err().to_string().contains("did you mean"));
    }
}

//! Tests of S3 with AWS's own client.

use crate::common::{s3, s3_at, s3_signed_by, settings, start};
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier,
};
use eciton_emulator::{Emulator, Role, Settings};

const BUCKET: &str = "eciton";
const MEGABYTE: usize = 1 << 20;

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn get(client: &aws_sdk_s3::Client, key: &str) -> Vec<u8> {
    client.get_object().bucket(BUCKET).key(key).send().await.unwrap().body.collect().await.unwrap().to_vec()
}

#[tokio::test]
async fn objects_come_back_whole_and_in_ranges() {
    let emulator = start(settings()).await;
    let client = s3(&emulator);
    let content = bytes(3 * MEGABYTE + 17);
    let put = client
        .put_object()
        .bucket(BUCKET)
        .key("a/b")
        .body(ByteStream::from(content.clone()))
        .send()
        .await
        .unwrap();
    assert_eq!(get(&client, "a/b").await, content);
    let head = client.head_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    assert_eq!((head.content_length(), head.e_tag()), (Some(content.len() as i64), put.e_tag()));
    for (range, expected, text) in [
        ("bytes=0-0", 0..1, "bytes 0-0/3145745"),
        ("bytes=1000-1999", 1000..2000, "bytes 1000-1999/3145745"),
        ("bytes=3145740-", 3_145_740..3_145_745, "bytes 3145740-3145744/3145745"),
        ("bytes=3145740-9999999", 3_145_740..3_145_745, "bytes 3145740-3145744/3145745"),
        ("bytes=-5", 3_145_740..3_145_745, "bytes 3145740-3145744/3145745"),
    ] {
        let output = client.get_object().bucket(BUCKET).key("a/b").range(range).send().await.unwrap();
        assert_eq!(output.content_range(), Some(text));
        assert_eq!(output.body.collect().await.unwrap().to_vec(), content[expected]);
    }
    let error =
        client.get_object().bucket(BUCKET).key("a/b").range("bytes=3145745-").send().await.unwrap_err();
    assert_eq!((error.code(), error.raw_response().unwrap().status().as_u16()), (Some("InvalidRange"), 416));
    let error = client.get_object().bucket(BUCKET).key("none").send().await.unwrap_err();
    assert!(error.into_service_error().is_no_such_key());
    let error = client.put_object().bucket("none-such").key("k").send().await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchBucket"));
    client.delete_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    client.delete_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    assert!(
        client
            .head_object()
            .bucket(BUCKET)
            .key("a/b")
            .send()
            .await
            .unwrap_err()
            .into_service_error()
            .is_not_found()
    );
    client.put_object().bucket(BUCKET).key("empty").send().await.unwrap();
    assert_eq!(get(&client, "empty").await, b"");
    client.head_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(client.list_buckets().send().await.unwrap().buckets()[0].name(), Some(BUCKET));
    let bill = emulator.bill().s3;
    assert_eq!((bill.puts, bill.gets, bill.heads, bill.deletes, bill.lists), (3, 9, 3, 2, 1));
    assert_eq!((bill.bytes_in, bill.refused), (content.len() as u64, 4));
    assert_eq!(bill.bytes_out, content.len() as u64 + 1 + 1000 + 15);
}

#[tokio::test]
async fn a_function_with_a_role_is_kept_to_its_prefixes_and_lists_nothing() {
    let mut settings = settings();
    let role = Role { read: vec!["a/".into(), "b/".into()], write: vec!["b/".into()] };
    settings.functions[0].role = Some(role);
    let emulator = start(settings).await;
    let account = s3(&emulator);
    for key in ["a/x", "c/x"] {
        account
            .put_object()
            .bucket(BUCKET)
            .key(key)
            .body(ByteStream::from_static(b"x"))
            .send()
            .await
            .unwrap();
    }
    let own = s3_signed_by(&emulator.s3_endpoint(), "emulator.echo", "emulator-secret");
    assert_eq!(get(&own, "a/x").await, b"x");
    own.put_object().bucket(BUCKET).key("b/x").send().await.unwrap();
    own.head_object().bucket(BUCKET).key("b/x").send().await.unwrap();
    // An absent object, and an object of another function.
    for key in ["a/none", "c/x"] {
        let refused = own.get_object().bucket(BUCKET).key(key).send().await.unwrap_err();
        assert_eq!(refused.code(), Some("AccessDenied"), "{key}");
        let refused = own.head_object().bucket(BUCKET).key(key).send().await.unwrap_err();
        assert_eq!(refused.raw_response().unwrap().status().as_u16(), 403, "{key}");
    }
    let refused = own.put_object().bucket(BUCKET).key("a/y").send().await.unwrap_err();
    assert_eq!(refused.code(), Some("AccessDenied"));
    let refused = own.list_objects_v2().bucket(BUCKET).send().await.unwrap_err();
    assert_eq!(refused.code(), Some("AccessDenied"));
    let refused = own.delete_object().bucket(BUCKET).key("b/x").send().await.unwrap_err();
    assert_eq!(refused.code(), Some("AccessDenied"));
    // The account itself gets the error that the object is absent.
    let absent = account.get_object().bucket(BUCKET).key("a/none").send().await.unwrap_err();
    assert!(absent.into_service_error().is_no_such_key());
}

#[tokio::test]
async fn a_wrong_signature_is_refused() {
    let emulator = start(settings()).await;
    let client = s3_at(&emulator.s3_endpoint(), "another secret");
    let error = client
        .put_object()
        .bucket(BUCKET)
        .key("k")
        .body(ByteStream::from_static(b"x"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.raw_response().unwrap().status().as_u16()),
        (Some("SignatureDoesNotMatch"), 403)
    );
    assert!(s3(&emulator).head_object().bucket(BUCKET).key("k").send().await.is_err());
    let bill = emulator.bill().s3;
    assert_eq!((bill.puts, bill.bytes_in, bill.refused), (0, 0, 2), "what is not signed is not billed");
}

#[tokio::test]
async fn a_stream_is_sent_in_signed_off_chunks_and_checked() {
    let emulator = start(settings()).await;
    let client = s3(&emulator);
    let content = bytes(2 * MEGABYTE + 5);
    let file = std::env::temp_dir().join(format!("eciton-emulator-stream-{}", std::process::id()));
    std::fs::write(&file, &content).unwrap();
    for algorithm in [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32C,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ] {
        let body = ByteStream::from_path(&file).await.unwrap();
        client
            .put_object()
            .bucket(BUCKET)
            .key("stream")
            .checksum_algorithm(algorithm.clone())
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(get(&client, "stream").await, content, "{algorithm:?}");
    }
    std::fs::remove_file(&file).unwrap();
    for wrong in ["AAAAAA==", "no base64"] {
        let put = client
            .put_object()
            .bucket(BUCKET)
            .key("sum")
            .checksum_crc32(wrong)
            .body(ByteStream::from_static(b"content"));
        let error = put.send().await.unwrap_err();
        assert_eq!((error.code(), error.raw_response().unwrap().status().as_u16()), (Some("BadDigest"), 400));
    }
    let put = client
        .put_object()
        .bucket(BUCKET)
        .key("sum")
        .content_md5("1B2M2Y8AsgTpgAmY7PhCfg==")
        .body(ByteStream::from_static(b"content"));
    assert_eq!(put.send().await.unwrap_err().code(), Some("BadDigest"));
    client
        .put_object()
        .bucket(BUCKET)
        .key("sum")
        .content_md5("1B2M2Y8AsgTpgAmY7PhCfg==")
        .send()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_16_racing_writers_one_wins() {
    let emulator = start(settings()).await;
    for round in 0..5 {
        let key = format!("race/{round}");
        let tasks: Vec<_> = (0..16)
            .map(|writer| {
                let (client, key) = (s3(&emulator), key.clone());
                tokio::spawn(async move {
                    let body = ByteStream::from(vec![writer; 100_000]);
                    match client
                        .put_object()
                        .bucket(BUCKET)
                        .key(key)
                        .if_none_match("*")
                        .body(body)
                        .send()
                        .await
                    {
                        Ok(_) => Some(writer),
                        Err(error) => {
                            assert_eq!(
                                (error.code(), error.raw_response().unwrap().status().as_u16()),
                                (Some("PreconditionFailed"), 412)
                            );
                            None
                        }
                    }
                })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            winners.extend(task.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(get(&s3(&emulator), &key).await, vec![winners[0]; 100_000]);
    }
}

async fn upload(
    client: &aws_sdk_s3::Client,
    key: &str,
    parts: &[Vec<u8>],
) -> (String, CompletedMultipartUpload) {
    let upload = client.create_multipart_upload().bucket(BUCKET).key(key).send().await.unwrap();
    let id = upload.upload_id().unwrap().to_owned();
    let mut completed = CompletedMultipartUpload::builder();
    for (number, part) in (1..).zip(parts) {
        let body = ByteStream::from(part.clone());
        let output = client
            .upload_part()
            .bucket(BUCKET)
            .key(key)
            .upload_id(&id)
            .part_number(number)
            .body(body)
            .send()
            .await
            .unwrap();
        completed = completed
            .parts(CompletedPart::builder().part_number(number).e_tag(output.e_tag().unwrap()).build());
    }
    (id, completed.build())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_16_racing_multipart_uploads_one_wins() {
    let emulator = start(settings()).await;
    let tasks: Vec<_> = (0..16_u8)
        .map(|writer| {
            let client = s3(&emulator);
            tokio::spawn(async move {
                let (id, parts) =
                    upload(&client, "race", &[vec![writer; 5 * MEGABYTE], vec![writer; 10]]).await;
                let complete = client
                    .complete_multipart_upload()
                    .bucket(BUCKET)
                    .key("race")
                    .upload_id(id)
                    .multipart_upload(parts);
                match complete.if_none_match("*").send().await {
                    Ok(_) => Some(writer),
                    Err(error) => {
                        assert_eq!(error.code(), Some("PreconditionFailed"));
                        None
                    }
                }
            })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        winners.extend(task.await.unwrap());
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(get(&s3(&emulator), "race").await, vec![winners[0]; 5 * MEGABYTE + 10]);
}

#[tokio::test]
async fn uploads_in_parts() {
    let emulator = start(settings()).await;
    let client = s3(&emulator);
    let parts = [bytes(5 * MEGABYTE), bytes(6 * MEGABYTE), bytes(100)];
    let (id, completed) = upload(&client, "big", &parts).await;
    assert!(
        client.head_object().bucket(BUCKET).key("big").send().await.is_err(),
        "nothing is seen before the end"
    );
    let listed = client.list_parts().bucket(BUCKET).key("big").upload_id(&id).send().await.unwrap();
    assert_eq!(
        listed.parts().iter().map(|part| part.size().unwrap()).collect::<Vec<_>>(),
        [5 << 20, 6 << 20, 100]
    );
    client
        .complete_multipart_upload()
        .bucket(BUCKET)
        .key("big")
        .upload_id(&id)
        .multipart_upload(completed.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(get(&client, "big").await, parts.concat());
    let again = client
        .complete_multipart_upload()
        .bucket(BUCKET)
        .key("big")
        .upload_id(&id)
        .multipart_upload(completed)
        .send()
        .await;
    assert_eq!(again.unwrap_err().code(), Some("NoSuchUpload"));
    let (id, completed) = upload(&client, "small", &[bytes(100), bytes(100)]).await;
    let complete = client
        .complete_multipart_upload()
        .bucket(BUCKET)
        .key("small")
        .upload_id(&id)
        .multipart_upload(completed);
    assert_eq!(complete.send().await.unwrap_err().code(), Some("EntityTooSmall"));
    client.abort_multipart_upload().bucket(BUCKET).key("small").upload_id(&id).send().await.unwrap();
    let part = client
        .upload_part()
        .bucket(BUCKET)
        .key("small")
        .upload_id(&id)
        .part_number(1)
        .body(ByteStream::from_static(b"x"));
    assert_eq!(part.send().await.unwrap_err().code(), Some("NoSuchUpload"));
    for number in [0, 10_001, -1] {
        let part = client
            .upload_part()
            .bucket(BUCKET)
            .key("small")
            .upload_id(&id)
            .part_number(number)
            .body(ByteStream::from_static(b"x"));
        assert_eq!(part.send().await.unwrap_err().code(), Some("InvalidArgument"));
    }
}

#[tokio::test]
async fn listings_and_deletes_of_many() {
    let emulator = start(settings()).await;
    let client = s3(&emulator);
    let mut keys: Vec<String> = (0..25).map(|at| format!("runs/r1/e{at:06}/x")).collect();
    keys.push("runs/r2/ä b+c%d".into());
    for key in &keys {
        client
            .put_object()
            .bucket(BUCKET)
            .key(key)
            .body(ByteStream::from_static(b"xyz"))
            .send()
            .await
            .unwrap();
    }
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let page = client
            .list_objects_v2()
            .bucket(BUCKET)
            .prefix("runs/")
            .max_keys(7)
            .set_continuation_token(token)
            .send()
            .await
            .unwrap();
        assert!(page.contents().len() <= 7 && page.contents().iter().all(|object| object.size() == Some(3)));
        found.extend(page.contents().iter().map(|object| object.key().unwrap().to_owned()));
        token = page.next_continuation_token().map(str::to_owned);
        assert_eq!(page.is_truncated(), Some(token.is_some()));
        if token.is_none() {
            break;
        }
    }
    assert_eq!(found, keys);
    let page = client.list_objects_v2().bucket(BUCKET).prefix("runs/").delimiter("/").send().await.unwrap();
    assert_eq!(
        page.common_prefixes().iter().map(|prefix| prefix.prefix().unwrap()).collect::<Vec<_>>(),
        ["runs/r1/", "runs/r2/"]
    );
    let delete = |keys: &[String]| {
        let ids = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build().unwrap());
        Delete::builder().set_objects(Some(ids.collect())).build().unwrap()
    };
    let output = client.delete_objects().bucket(BUCKET).delete(delete(&keys)).send().await.unwrap();
    assert_eq!((output.deleted().len(), output.errors().len()), (26, 0));
    assert_eq!(client.list_objects_v2().bucket(BUCKET).send().await.unwrap().key_count(), Some(0));
    let many: Vec<String> = (0..1001).map(|at| at.to_string()).collect();
    assert_eq!(
        client.delete_objects().bucket(BUCKET).delete(delete(&many)).send().await.unwrap_err().code(),
        Some("MalformedXML")
    );
}

#[tokio::test]
async fn keys_are_names_and_never_paths() {
    let emulator = start(settings()).await;
    let client = s3(&emulator);
    let keys = [
        "../../etc/passwd",
        "a//b",
        "./x",
        "/lead",
        "trail/",
        "..",
        "%2e%2e%2f",
        "a\u{7f}b",
        "ü/😀",
        "con:aux|<>*?\"",
        "x y+z&k=v#f",
    ];
    for (at, key) in keys.iter().enumerate() {
        let body = ByteStream::from(vec![at as u8; 3]);
        client
            .put_object()
            .bucket(BUCKET)
            .key(*key)
            .body(body)
            .send()
            .await
            .unwrap_or_else(|error| panic!("{key:?}: {error:?}"));
    }
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(get(&client, key).await, vec![at as u8; 3], "{key:?}");
    }
    let page = client
        .list_objects_v2()
        .bucket(BUCKET)
        .encoding_type(aws_sdk_s3::types::EncodingType::Url)
        .send()
        .await
        .unwrap();
    assert_eq!(page.contents().len(), keys.len());
    let put = |length: usize| {
        client.put_object().bucket(BUCKET).key("k".repeat(length)).body(ByteStream::from_static(b"x")).send()
    };
    put(1024).await.unwrap();
    assert_eq!(put(1025).await.unwrap_err().code(), Some("KeyTooLongError"));
}

#[tokio::test]
async fn full_buckets_refuse() {
    let emulator: Emulator = start(Settings { store_bytes: 1000, ..settings() }).await;
    let client = s3(&emulator);
    let put = |key: &str, length: usize| {
        client.put_object().bucket(BUCKET).key(key).body(ByteStream::from(vec![1; length])).send()
    };
    put("a", 1000).await.unwrap();
    let error = put("b", 1).await.unwrap_err();
    assert!(error.message().unwrap().contains("raise store_bytes"), "{error:?}");
    client.delete_object().bucket(BUCKET).key("a").send().await.unwrap();
    put("b", 1).await.unwrap();
}

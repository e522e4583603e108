//! Log of kernels. Lines are cut in the guest's memory before they are copied to the host.
//!
//! The generated bindings would copy a whole line of up to `call-bytes`, although only 4 kB of it
//! are stored. A kernel with an endless log loop would then spend its time in copies, which no
//! clock interrupts.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmStr};

use crate::bindings::eciton::kernel::log::Level;
use crate::check::CONTRACT;
use crate::engine;
use crate::error::Result;
use crate::state::State;

/// Maximum length of a stored log line, in bytes.
pub(crate) const LINE: usize = 4096;

/// Returns the first [`LINE`] bytes of a line, cut at a character boundary.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LINE)]
}

/// Registers the log functions of this module with the linker, in place of the generated ones.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    linker.allow_shadowing(true);
    define(linker).map_err(engine::error("linking the log"))?;
    linker.allow_shadowing(false);
    Ok(())
}

fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let (package, version) = CONTRACT.split_once('@').unwrap_or((CONTRACT, ""));
    let mut log = linker.instance(&format!("{package}/log@{version}"))?;
    log.func_wrap("write", |mut store: StoreContextMut<'_, State>, (level, text): (Level, WasmStr)| {
        store.data().in_time()?;
        if store.data().log_is_full() {
            return Ok(());
        }
        let line = cut(&text.to_str(&store)?).to_owned();
        store.data_mut().log_line(level, &line);
        Ok(())
    })?;
    log.func_wrap(
        "panicked",
        |mut store: StoreContextMut<'_, State>, (text, file, line): (WasmStr, WasmStr, u32)| {
            let own = |text: &WasmStr, store: &StoreContextMut<'_, State>| -> wasmtime::Result<String> {
                Ok(cut(&text.to_str(store)?).to_owned())
            };
            let (text, file) = (own(&text, &store)?, own(&file, &store)?);
            store.data_mut().panicked_at(&text, &file, line);
            Ok(())
        },
    )?;
    Ok(())
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use wasmtime::Store;
    use wasmtime::component::{Component, HasSelf, TypedFunc};

    use super::*;
    use crate::bindings::VertexKernel;
    use crate::limits::Limits;
    use crate::runtime::{Runtime, Settings};

    /// Component that writes a line of `BYTES` zeros to the log, N times. The caller gives N.
    const TEXT: &str = r#"(component
        (import "eciton:kernel/log@0.1.2" (instance $log
            (type $levels (enum "debug" "info" "warning"))
            (export "level" (type $level (eq $levels)))
            (export "write" (func (param "level" $level) (param "text" string)))))
        (core module $memory (memory (export "m") 1024))
        (core instance $memory (instantiate $memory))
        (core func $write (canon lower (func $log "write") (memory $memory "m")))
        (core module $code
            (import "log" "write" (func $write (param i32 i32 i32)))
            (func (export "run") (param $times i32)
                (loop $again
                    (call $write (i32.const 1) (i32.const 0) (i32.const BYTES))
                    (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))))
        (core instance $code (instantiate $code
            (with "log" (instance (export "write" (func $write))))))
        (func (export "run") (param "times" u32) (canon lift (core func $code "run"))))"#;

    fn store(limits: Limits, bytes: usize) -> (Runtime, Store<State>, TypedFunc<(u32,), ()>) {
        let runtime = Runtime::new(Settings { limits: limits.clone(), ..Settings::default() }).unwrap();
        let text = TEXT.replace("BYTES", &bytes.to_string());
        let component = Component::new(runtime.engine(), wat::parse_str(text).unwrap()).unwrap();
        let mut store = Store::new(runtime.engine(), State::new(limits));
        store.set_epoch_deadline(1 << 40);
        let mut linker = Linker::new(runtime.engine());
        VertexKernel::add_to_linker::<_, HasSelf<_>>(&mut linker, |s| s).unwrap();
        add_to_linker(&mut linker).unwrap();
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let run = instance.get_typed_func(&mut store, "run").unwrap();
        (runtime, store, run)
    }

    #[test]
    fn a_long_line_is_cut_before_it_is_copied() {
        let (_runtime, mut store, run) = store(Limits::default(), 50_000_000);
        run.call(&mut store, (1,)).unwrap();
        let line = &store.data().log[0];
        assert_eq!((line.len(), &line[..7]), (LINE, "info:  "));
        // Text beyond `log-bytes` is not read at all.
        run.call(&mut store, (20,)).unwrap();
        let begun = Instant::now();
        run.call(&mut store, (1000,)).unwrap();
        assert!(begun.elapsed().as_secs_f64() < 2.0, "50 GB were copied: {:?}", begun.elapsed());
        assert_eq!(store.data().log.len(), 16);
    }

    #[test]
    fn a_call_after_the_time_is_over_is_refused() {
        let (runtime, mut store, run) = store(Limits::default(), 10);
        store.data_mut().ends(runtime.clock(), 2);
        run.call(&mut store, (1,)).unwrap();
        (0..2).for_each(|_| runtime.tick());
        let error = run.call(&mut store, (1,)).unwrap_err();
        assert_eq!(error.downcast_ref::<wasmtime::Trap>(), Some(&wasmtime::Trap::Interrupt), "{error:#}");
    }
}

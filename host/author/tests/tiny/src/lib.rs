//! A kernel of which every function panics: it compiles against any contract with this world.

wit_bindgen::generate!({ path: "wit", world: "vertex-kernel", stubs });

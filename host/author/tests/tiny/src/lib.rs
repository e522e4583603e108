//! Kernel whose functions all panic. It compiles against any contract with this world.

wit_bindgen::generate!({ path: "wit", world: "vertex-kernel", stubs });

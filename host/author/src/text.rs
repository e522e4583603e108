//! Conversion of WIT types and functions to text. The text does not depend on whether a package was
//! read from WIT or from a component. Once all named types have been compared, equal texts imply
//! equal types.

use wit_parser::{
    Function, FunctionKind, Handle, InterfaceId, Resolve, Type, TypeDefKind, TypeId, TypeOwner,
};

/// Maximum nesting depth of anonymous types in a text. Deeper types are replaced by `...`.
const MAX_DEPTH: u32 = 100;

/// Returns the name of a function without its kind: `matrix.rows` for a method, `out.create` for a
/// static function, and `matmul` for a plain function.
pub(crate) fn function_name(function: &Function) -> String {
    let name = function.name.as_str();
    match name.rsplit_once(']') {
        Some(("[constructor", resource)) => format!("{resource}.constructor"),
        Some((_, rest)) => rest.to_owned(),
        None => name.to_owned(),
    }
}

/// Returns the type of a function as WIT text, for instance `static func(shape: list<u32>) ->
/// result<out, types.error>`. Names of types in the interface `home` are not qualified.
pub(crate) fn function(resolve: &Resolve, home: InterfaceId, function: &Function) -> String {
    let (word, method) = match function.kind {
        FunctionKind::Freestanding => ("func", false),
        FunctionKind::AsyncFreestanding => ("async func", false),
        FunctionKind::Method(_) => ("func", true),
        FunctionKind::AsyncMethod(_) => ("async func", true),
        FunctionKind::Static(_) => ("static func", false),
        FunctionKind::AsyncStatic(_) => ("static async func", false),
        FunctionKind::Constructor(_) => ("constructor", false),
    };
    let parameters = function
        .params
        .iter()
        .skip(usize::from(method))
        .map(|parameter| format!("{}: {}", parameter.name, ty(resolve, home, &parameter.ty)))
        .collect::<Vec<_>>()
        .join(", ");
    let result = function
        .result
        .as_ref()
        .map(|result| format!(" -> {}", ty(resolve, home, result)))
        .unwrap_or_default();
    format!("{word}({parameters}){result}")
}

/// Returns the text for a use of a type. A named type is given by its name, qualified with its
/// interface unless that is `home`.
pub(crate) fn ty(resolve: &Resolve, home: InterfaceId, ty: &Type) -> String {
    at(resolve, home, ty, 0)
}

fn at(resolve: &Resolve, home: InterfaceId, ty: &Type, depth: u32) -> String {
    if depth > MAX_DEPTH {
        return "...".to_owned();
    }
    let name = match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(id) => return named(resolve, home, *id, depth),
    };
    name.to_owned()
}

fn named(resolve: &Resolve, home: InterfaceId, id: TypeId, depth: u32) -> String {
    let id = origin(resolve, id);
    let definition = &resolve.types[id];
    match &definition.name {
        None => body(resolve, home, id, depth),
        Some(name) => match definition.owner {
            TypeOwner::Interface(owner) if owner == home => name.clone(),
            TypeOwner::Interface(owner) => format!("{}.{name}", interface_name(resolve, owner)),
            TypeOwner::World(_) | TypeOwner::None => name.clone(),
        },
    }
}

/// Follows aliases and `use` declarations from a type to its original definition, and returns the
/// id of that definition.
fn origin(resolve: &Resolve, mut id: TypeId) -> TypeId {
    // A chain of aliases cannot be longer than the number of types.
    for _ in 0..resolve.types.len() {
        match resolve.types[id].kind {
            TypeDefKind::Type(Type::Id(next)) if resolve.types[next].name.is_some() => id = next,
            _ => break,
        }
    }
    id
}

/// Returns the name of an interface, for instance `linalg`. The name of the package is included
/// unless it is `eciton:kernel`.
fn interface_name(resolve: &Resolve, id: InterfaceId) -> String {
    let interface = &resolve.interfaces[id];
    let name = interface.name.as_deref().unwrap_or("(unnamed)");
    match interface.package.map(|package| &resolve.packages[package].name) {
        Some(package) if (package.namespace.as_str(), package.name.as_str()) == ("eciton", "kernel") => {
            name.to_owned()
        }
        Some(package) => format!("{}/{name}", package),
        None => name.to_owned(),
    }
}

/// Returns the definition of a type as WIT text, for instance `record { epoch: u32, rows: u32 }`.
pub(crate) fn definition(resolve: &Resolve, home: InterfaceId, id: TypeId) -> String {
    match resolve.types[id].kind {
        TypeDefKind::Type(Type::Id(_)) => format!("= {}", named(resolve, home, id, 0)),
        _ => body(resolve, home, id, 0),
    }
}

fn body(resolve: &Resolve, home: InterfaceId, id: TypeId, depth: u32) -> String {
    let one = |ty: &Type| at(resolve, home, ty, depth + 1);
    let maybe = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), one);
    let with = |name: &str, ty: Option<&Type>| match ty {
        Some(ty) => format!("{name}({})", one(ty)),
        None => name.to_owned(),
    };
    match &resolve.types[id].kind {
        TypeDefKind::Record(record) => {
            braces("record", record.fields.iter().map(|field| format!("{}: {}", field.name, one(&field.ty))))
        }
        TypeDefKind::Variant(variant) => {
            braces("variant", variant.cases.iter().map(|case| with(&case.name, case.ty.as_ref())))
        }
        TypeDefKind::Enum(cases) => braces("enum", cases.cases.iter().map(|case| case.name.clone())),
        TypeDefKind::Flags(flags) => braces("flags", flags.flags.iter().map(|flag| flag.name.clone())),
        TypeDefKind::Resource => "resource".to_owned(),
        TypeDefKind::Handle(Handle::Own(id)) => named(resolve, home, *id, depth + 1),
        TypeDefKind::Handle(Handle::Borrow(id)) => {
            format!("borrow<{}>", named(resolve, home, *id, depth + 1))
        }
        TypeDefKind::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        TypeDefKind::Option(ty) => format!("option<{}>", one(ty)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (ok, None) => format!("result<{}>", maybe(ok)),
            (ok, err) => format!("result<{}, {}>", maybe(ok), maybe(err)),
        },
        TypeDefKind::List(ty) => format!("list<{}>", one(ty)),
        TypeDefKind::FixedLengthList(ty, len) => format!("list<{}, {len}>", one(ty)),
        TypeDefKind::Map(key, value) => format!("map<{}, {}>", one(key), one(value)),
        TypeDefKind::Future(ty) => format!("future<{}>", maybe(ty)),
        TypeDefKind::Stream(ty) => format!("stream<{}>", maybe(ty)),
        TypeDefKind::Type(ty) => one(ty),
        TypeDefKind::Unknown => "(unknown)".to_owned(),
    }
}

fn braces(word: &str, items: impl Iterator<Item = String>) -> String {
    format!("{word} {{ {} }}", items.collect::<Vec<_>>().join(", "))
}

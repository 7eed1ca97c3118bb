//! The attribute `#[mpi(crate = "path")]`.

use syn::{DeriveInput, Error, LitStr, Path, Result, parse_quote};

/// Returns the path of the crate with the Rust API: the attribute's, or `::mpi`.
pub(crate) fn crate_path(input: &DeriveInput) -> Result<Path> {
    let mut path = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("mpi")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown attribute: it must be `crate = \"path\"`"));
            }
            let value: LitStr = meta.value()?.parse()?;
            match path.replace(value.parse_with(Path::parse_mod_style)?) {
                None => Ok(()),
                Some(_) => Err(meta.error("`crate` must be named once")),
            }
        })?;
        if path.is_none() {
            return Err(Error::new_spanned(attribute, "`crate = \"path\"` is missing"));
        }
    }
    Ok(path.unwrap_or_else(|| parse_quote!(::mpi)))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens as _;

    use super::*;

    fn path(input: &DeriveInput) -> std::result::Result<String, String> {
        crate_path(input)
            .map(|path| path.to_token_stream().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_crate_is_mpi_or_the_one_that_is_named() {
        assert_eq!(
            path(&parse_quote!(
                struct S;
            ))
            .unwrap(),
            ":: mpi"
        );
        let named = parse_quote!(
            #[mpi(crate = "crate::a::mpi")]
            struct S;
        );
        assert_eq!(path(&named).unwrap(), "crate :: a :: mpi");
    }

    #[test]
    fn other_attributes_are_refused() {
        let refused = |input| path(&input).unwrap_err();
        assert!(
            refused(parse_quote!(
                #[mpi(name = "s")]
                struct S;
            ))
            .contains("unknown")
        );
        assert!(
            refused(parse_quote!(
                #[mpi()]
                struct S;
            ))
            .contains("missing")
        );
        let twice = parse_quote!(
            #[mpi(crate = "a")]
            #[mpi(crate = "b")]
            struct S;
        );
        assert!(refused(twice).contains("once"));
        assert!(
            path(&parse_quote!(
                #[mpi(crate = "1 +")]
                struct S;
            ))
            .is_err()
        );
        assert!(
            path(&parse_quote!(
                #[mpi(crate = 1)]
                struct S;
            ))
            .is_err()
        );
    }
}

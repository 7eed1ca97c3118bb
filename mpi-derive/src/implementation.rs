//! The implementation of `Equivalence` for a structure.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Index, Member, Path, Result, Type};

use crate::attribute::crate_path;

/// Returns the implementation.
pub(crate) fn equivalence(input: &DeriveInput) -> Result<TokenStream> {
    let mpi = crate_path(input)?;
    let Data::Struct(structure) = &input.data else {
        let kind = if matches!(input.data, Data::Enum(_)) { "an enumeration" } else { "a union" };
        return Err(Error::new_spanned(
            &input.ident,
            format!("{kind} has no MPI datatype: derive Equivalence for structures"),
        ));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a structure with generic parameters has no single MPI datatype: implement \
             Equivalence by hand, or derive it for one without",
        ));
    }
    let members = structure.fields.members();
    let types = structure.fields.iter().map(|field| &field.ty);
    let datatype = structure_datatype(&mpi, &quote!(Self), members.zip(types))?;
    let ident = &input.ident;
    let name = ident.to_string();
    Ok(quote! {
        // SAFETY: the datatype describes the fields and nothing else, and has the type's size.
        // Each field's type has Equivalence.
        unsafe impl #mpi::datatype::Equivalence for #ident {
            type Out = #mpi::datatype::DatatypeRef<'static>;

            fn equivalent_datatype() -> Self::Out {
                static CACHED: #mpi::datatype::internal::Cached =
                    #mpi::datatype::internal::Cached::new();
                CACHED.datatype(#name, || #datatype)
            }
        }
    })
}

/// Returns an expression for the datatype of a structure or tuple.
fn structure_datatype<'a>(
    mpi: &Path,
    structure: &TokenStream,
    fields: impl Iterator<Item = (Member, &'a Type)>,
) -> Result<TokenStream> {
    let fields = fields
        .map(|(member, ty)| {
            let datatype = type_datatype(mpi, ty)?;
            Ok(quote! {(
                ::core::mem::offset_of!(#structure, #member),
                #mpi::datatype::internal::field(&#datatype),
            )})
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #mpi::datatype::internal::structure(::core::mem::size_of::<#structure>(), &[#(#fields),*])
    })
}

/// Returns an expression for the datatype of a field's type.
fn type_datatype(mpi: &Path, ty: &Type) -> Result<TokenStream> {
    match ty {
        Type::Path(_) => Ok(quote!(<#ty as #mpi::datatype::Equivalence>::equivalent_datatype())),
        Type::Array(array) => {
            let (element, len) = (type_datatype(mpi, &array.elem)?, &array.len);
            Ok(quote!(#mpi::datatype::internal::array(#len, &#element)))
        }
        Type::Tuple(tuple) => {
            let members = (0..tuple.elems.len()).map(|index| Member::Unnamed(Index::from(index)));
            structure_datatype(mpi, &quote!(#tuple), members.zip(&tuple.elems))
        }
        Type::Group(group) => type_datatype(mpi, &group.elem),
        Type::Paren(paren) => type_datatype(mpi, &paren.elem),
        _ => Err(Error::new_spanned(
            ty,
            "a field of this type has no MPI datatype: it must be a number, bool, another type \
             with Equivalence, or a tuple or an array of these",
        )),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn refused(input: &DeriveInput) -> String {
        equivalence(input).unwrap_err().to_string()
    }

    #[test]
    fn enumerations_unions_and_generic_structures_are_refused() {
        assert!(
            refused(&parse_quote!(
                enum E {
                    A,
                    B,
                }
            ))
            .starts_with("an enumeration has no")
        );
        assert!(refused(&parse_quote!(union U { a: u8 })).starts_with("a union has no"));
        assert!(
            refused(&parse_quote!(
                struct S<T>(T);
            ))
            .contains("generic parameters")
        );
        assert!(
            refused(&parse_quote!(
                struct S<'a> {
                    a: &'a u8,
                }
            ))
            .contains("generic parameters")
        );
    }

    #[test]
    fn fields_without_a_datatype_are_refused() {
        assert!(
            refused(&parse_quote!(
                struct S(*const u8);
            ))
            .contains("a field of this type")
        );
        assert!(
            refused(&parse_quote!(
                struct S {
                    a: [(u8, &'static str); 2],
                }
            ))
            .contains("field")
        );
    }

    #[test]
    fn each_field_has_its_offset_and_datatype() {
        let written = equivalence(&parse_quote!(
            struct S {
                a: u8,
                b: [(f32, T); 3],
            }
        ))
        .unwrap();
        let written = written.to_string();
        for part in [
            "offset_of ! (Self , a)",
            "< u8 as :: mpi :: datatype :: Equivalence > :: equivalent_datatype ()",
            "array (3 , & :: mpi :: datatype :: internal :: structure",
            "size_of :: < (f32 , T) > ()",
            "offset_of ! ((f32 , T) , 1)",
        ] {
            assert!(written.contains(part), "{part} is not in {written}");
        }
        syn::parse_str::<syn::ItemImpl>(&written).unwrap();
    }
}

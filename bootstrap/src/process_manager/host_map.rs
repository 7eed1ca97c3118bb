//! The attribute `PMI_process_mapping`: which process runs on which node.
//!
//! `(vector,(0,2,4),(2,1,3))` means: from node 0 on 2 nodes with 4 processes each, then 1 node with
//! 3. Ranks are counted along the blocks; if they are more than the blocks hold, the blocks begin
//! again (a cyclic distribution). Decoding is total.

/// The largest number of processes.
const MAX_RANKS: u32 = 1 << 24;

/// Returns the ranks that share the node of `rank`, in rising order; `None` if the text is no map.
pub fn ranks_of_node(text: &str, rank: u32, size: u32) -> Option<Vec<u32>> {
    let blocks = parse(text)?;
    if size > MAX_RANKS || rank >= size {
        return None;
    }
    let mut nodes = Vec::with_capacity(size as usize);
    let runs = blocks.iter().cycle().flat_map(|&(first, count, each)| {
        (0..count).map(move |node| (first.saturating_add(node), each))
    });
    for (node, each) in runs {
        let left = size as usize - nodes.len();
        nodes.extend(std::iter::repeat_n(node, left.min(each as usize)));
        if nodes.len() == size as usize {
            break;
        }
    }
    let own = nodes[rank as usize];
    Some((0..size).zip(nodes).filter(|(_, node)| *node == own).map(|(rank, _)| rank).collect())
}

/// Returns the blocks: first node, number of nodes, processes of each; none of these counts is 0.
fn parse(text: &str) -> Option<Vec<(u32, u32, u32)>> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let list = text.strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    for block in list.split("),").map(|block| block.trim_end_matches(')')) {
        let mut numbers = block.strip_prefix('(')?.split(',').map(|word| word.parse::<u32>().ok());
        let block = (numbers.next()??, numbers.next()??, numbers.next()??);
        if block.1 == 0 || block.2 == 0 || numbers.next().is_some() {
            return None;
        }
        blocks.push(block);
    }
    (!blocks.is_empty()).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_counted_along_the_nodes() {
        assert_eq!(ranks_of_node("(vector,(0,2,2))", 2, 4), Some(vec![2, 3]));
        assert_eq!(ranks_of_node("(vector,(0,1,4))", 2, 4), Some(vec![0, 1, 2, 3]));
        assert_eq!(ranks_of_node("(vector,(0,2,4),(2,1,3))", 9, 11), Some(vec![8, 9, 10]));
        let cyclic = "(vector,(0,2,1),(0,2,1))";
        assert_eq!(ranks_of_node(cyclic, 3, 4), Some(vec![1, 3]));
        assert_eq!(ranks_of_node("(vector, (0,2,1))", 2, 5), Some(vec![0, 2, 4]));
        for wrong in ["", "(vector)", "(vector,)", "(vector,(0,0,1))", "(vector,(0,1))", "x"] {
            assert_eq!(ranks_of_node(wrong, 0, 2), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_map_or_nothing(
            text in "\\(vector,(\\([0-9,]{1,8}\\),?){1,3}\\)|\\PC*",
            rank in 0u32..9,
        ) {
            if let Some(ranks) = ranks_of_node(&text, rank, 8) {
                prop_assert!(ranks.contains(&rank) && ranks.is_sorted());
            }
        }
    }
}

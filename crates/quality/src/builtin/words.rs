//! Keys, values and words of generated tasks, drawn from a seed. All of one draw are distinct.

use crate::python::Random;

const ADJECTIVES: &str = "able agile amber ample ancient arctic autumn azure balmy bitter blank bold brave breezy \
brief bright brisk broad broken bronze calm candid careful casual central cheerful chilly civic clean clear clever \
cloudy coastal cobalt cold copper coral cosmic cotton crimson crisp curious curved daily dapper dark daring deep \
distant double dusty eager early eastern easy elder empty even famous fancy feral fine firm flat fluent foggy formal \
fragile frank fresh frosty gentle giant gifted glad golden grand graceful green handy happy hardy hasty hazel hidden \
hollow honest humble icy idle indigo inner ivory jolly keen kind large late lean level light lively local lofty lone \
loud loyal lucid lucky lunar major maple marble meek mellow merry mild minor misty modern modest mossy mute narrow \
neat nimble noble northern novel oaken odd olive opal open ornate pale patient plain polite prime proud purple quaint \
quick quiet rapid rare ready regal rich ripe robust rocky rosy round royal rural rustic sable sandy scarlet secret \
serene sharp shiny silent silver simple sleek slim slow small smooth snowy solar solid spare stable steady steep \
stony strict sturdy subtle sunny supple swift tall tame tender tidy tiny torn tough tranquil true urban vague vast \
velvet violet vivid warm wary western wide wild wise witty wooden young zesty";

const NOUNS: &str = "acorn alley anchor anvil apple apron arch arrow attic badge bakery banjo banner barge barn \
basin basket beacon bell bench berry blanket bonnet bottle bridge bucket button cabin cactus camel canal candle canoe \
canyon carpet castle cedar cellar chapel cherry chimney cliff clock clover cloud coin comet compass copse cottage \
cradle crane creek crown cushion desert donkey dragon drum eagle easel ember engine falcon feather fence ferry fiddle \
flag flute forest fossil fountain fox galley garden garnet gate glacier goblet granite grove hammer harbor hawk hedge \
helmet heron hill hive hornet island ivy jacket jewel kettle key kite ladder lagoon lake lantern leaf ledger lemon \
lever lily lizard locket loom magnet mango mantle map market meadow medal melon mill mirror mitten moon mortar mountain \
needle nest oak oar oasis orchard otter owl paddle palace panda parcel pebble pelican pencil pepper piano pier pigeon \
pillow pine planet plaza plum pocket pond poppy prairie puzzle quarry quilt rabbit raft raven reef ribbon ridge river \
robin rocket rope saddle sail salmon satchel school sector shelf shield shore signal sled spade sparrow spire spoon \
spring statue stream summit swan table tavern teapot temple thimble thistle ticket tiger torch tower tractor trail \
trumpet tulip tunnel turtle valley vase village violin wagon walnut walrus willow window wren yard zebra";

/// Two-word keys such as `amber-lantern`; `None` if there are not as many.
pub(super) fn keys(random: &mut Random, count: usize) -> Option<Vec<String>> {
    let adjectives: Vec<&str> = ADJECTIVES.split_whitespace().collect();
    let nouns: Vec<&str> = NOUNS.split_whitespace().collect();
    let places = random.sample(adjectives.len() * nouns.len(), count)?;
    let word = |place: usize| {
        let (adjective, noun) = (place / nouns.len(), place % nouns.len());
        format!("{}-{}", adjectives.get(adjective).unwrap_or(&""), nouns.get(noun).unwrap_or(&""))
    };
    Some(places.into_iter().map(word).collect())
}

/// Numbers of seven digits.
pub(super) fn numbers(random: &mut Random, count: usize) -> Option<Vec<String>> {
    Some(random.sample(9_000_000, count)?.into_iter().map(|place| (place + 1_000_000).to_string()).collect())
}

/// UUIDs of version 4.
pub(super) fn uuids(random: &mut Random, count: usize) -> Vec<String> {
    let one = |random: &mut Random| {
        let bits = random.bits(128) & !(0xf000 << 64) & !(0xc000 << 48) | (0x4000 << 64) | (0x8000 << 48);
        let hex = format!("{bits:032x}");
        let part = |from, to| hex.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    };
    (0..count).map(|_| one(random)).collect()
}

/// Codes of `letters` letters from `first` on (`'A'` or `'a'`).
pub(super) fn codes(random: &mut Random, first: u8, letters: u32, count: usize) -> Option<Vec<String>> {
    let places = random.sample(26usize.pow(letters), count)?;
    let code = |mut place: usize| -> String {
        (0..letters)
            .map(|_| {
                let letter = char::from(first + (place % 26) as u8);
                place /= 26;
                letter
            })
            .collect()
    };
    Some(places.into_iter().map(code).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_distinct_and_enough_for_the_longest_lists() {
        for list in [ADJECTIVES, NOUNS] {
            let words: Vec<&str> = list.split_whitespace().collect();
            assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
        }
        let keys = keys(&mut Random::new(1), 20_000).unwrap();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 20_000);
    }

    #[test]
    fn uuids_are_of_version_4() {
        for uuid in uuids(&mut Random::new(1), 50) {
            let bytes = uuid.as_bytes();
            assert_eq!((bytes.len(), bytes[8], bytes[14]), (36, b'-', b'4'), "{uuid}");
            assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'), "{uuid}");
        }
    }
}

// The table of roles. Door: rules.h.
#include "headwise/heads/roles/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr std::array kRules = {
    RoleRule{.role = "induction",
             .word = "induct",
             .letter = 'I',
             .sign = "In",
             .family = "repeat",
             .says = "finds what followed the same token before",
             .metric = "repeats.induction",
             .threshold = 0.4,
             .content = true,
             .reads_far = true,
             .material = "random repeats",
             .means = "on random tokens repeated four times, mass on the "
                      "tokens that followed earlier copies of the current one",
             .trap =
                 "in text, fixed phrases let other heads score: only random "
                 "repeats count"},
    RoleRule{.role = "duplicate",
             .word = "dupl",
             .letter = 'U',
             .sign = "Du",
             .family = "repeat",
             .says = "finds earlier copies of the same token",
             .metric = "repeats.duplicate",
             .threshold = 0.4,
             .content = true,
             .reads_far = true,
             .material = "random repeats",
             .means = "on random repeats, mass on earlier copies of the "
                      "current token",
             .trap = "in text, punctuation and articles repeat so often that "
                     "broad heads look like duplicate heads"},
    RoleRule{.role = "previous-token",
             .word = "prev",
             .letter = 'P',
             .sign = "Pr",
             .family = "position",
             .says = "reads the token before",
             .metric = "previous",
             .threshold = 0.5,
             .repeats = OnRepeats::kToo,
             .positional = true,
             .content = true,
             .means = "mass on the token before, or the largest key there in "
                      "most rows",
             .trap = "in short texts uniform causal attention already gives "
                     "much of it: rows that see few keys are left out"},
    RoleRule{.role = "next-token",
             .word = "next",
             .letter = 'N',
             .sign = "Nx",
             .family = "position",
             .says = "reads the token after",
             .metric = "next",
             .threshold = 0.5,
             .repeats = OnRepeats::kToo,
             .positional = true,
             .content = true,
             .means = "mass on the token after, or the largest key there in "
                      "most rows",
             .trap = "cannot be under a causal mask; the last token has none"},
    RoleRule{.role = "offset",
             .word = "offset",
             .letter = 'O',
             .sign = "Of",
             .family = "position",
             .says = "reads one fixed distance away",
             .metric = "offset",
             .threshold = 0.5,
             .repeats = OnRepeats::kToo,
             .positional = true,
             .content = true,
             .means = "mass on the token k places away, 2 ≤ |k| ≤ 8, or the "
                      "largest key there in most rows",
             .trap = "rows near the edges do not have the offset: one that "
                     "less than half of the rows have is not judged"},
    RoleRule{.role = "self",
             .word = "self",
             .letter = 'S',
             .sign = "Se",
             .family = "position",
             .says = "reads the token itself",
             .metric = "self",
             .threshold = 0.5,
             .repeats = OnRepeats::kToo,
             .positional = true,
             .content = true,
             .means = "mass on the token itself",
             .trap = "a head that shares its mass between itself and a "
                     "neighbour is named after the neighbour first"},
    RoleRule{.role = "first-token",
             .word = "first",
             .letter = 'F',
             .sign = "Fi",
             .family = "sink",
             .says = "rests on the first token: a sink",
             .metric = "first",
             .threshold = 0.6,
             .repeats = OnRepeats::kInstead,
             .means = "mass on the first token of the sequence: a sink",
             .trap = "a head at rest reads the sink; what it does elsewhere "
                     "is judged with the sinks left out"},
    RoleRule{.role = "last-token",
             .word = "last",
             .letter = 'L',
             .sign = "La",
             .family = "sink",
             .says = "rests on the last token",
             .metric = "last",
             .threshold = 0.6,
             .repeats = OnRepeats::kInstead,
             .content = true,
             .means = "mass on the last token of the sequence",
             .trap = "only without a causal mask; in encoders the last token "
                     "is often [SEP], which also counts as delimiter"},
    RoleRule{.role = "delimiter",
             .word = "delim",
             .letter = 'D',
             .sign = "De",
             .family = "sink",
             .says = "rests on punctuation and special tokens",
             .metric = "delimiter",
             .threshold = 0.6,
             .content = true,
             .means = "mass on punctuation and special tokens",
             .trap = "the first token of a causal model is first-token, never "
                     "a delimiter; [CLS], [SEP] and punctuation are different "
                     "things and are counted apart too"},
    RoleRule{.role = "local",
             .word = "local",
             .letter = 'W',
             .sign = "Lo",
             .family = "position",
             .says = "reads the few tokens around",
             .metric = "local",
             .threshold = 0.7,
             .repeats = OnRepeats::kInstead,
             .above_chance = 0.3,
             .no_offset = true,
             .content = true,
             .means = "mass within four places, well above what uniform "
                      "attention gives there, and no single offset passes",
             .trap = "every head is local in a text of five words"},
    RoleRule{.role = "rare-token",
             .word = "rare",
             .letter = 'R',
             .sign = "Ra",
             .family = "meaning",
             .says = "reads the rarest token of the sentence",
             .metric = "rare.argmax",
             .threshold = 0.5,
             .times_chance = 3,
             .content = true,
             .means = "share of rows whose largest key is the rarest token of "
                      "the sentence, three times as often as by chance",
             .trap = "frequency is counted in the profiled text; in short "
                     "sentences chance is high"},
    RoleRule{.role = "semantic",
             .word = "sem",
             .letter = 'M',
             .sign = "Sm",
             .family = "meaning",
             .says = "reads tokens of similar meaning",
             .metric = "semantic",
             .threshold = 0.25,
             .above_chance = 0.1,
             .secondary = true,
             .means = "rank correlation between attention and the cosine of "
                      "input embeddings, above that of permuted embeddings",
             .trap =
                 "a head that matches tokens by their embeddings, such as a "
                 "duplicate head, scores too: its other role is named "
                 "first"},
    RoleRule{.role = "retrieval",
             .word = "retr",
             .letter = 'V',
             .sign = "Re",
             .family = "repeat",
             .says = "fetches a fact from far back",
             .metric = "retrieval",
             .threshold = 0.1,
             .secondary = true,
             .reads_far = true,
             .material = "needles",
             .means = "share of needle tokens for which the largest key is the "
                      "same token inside the needle",
             .trap = "every induction head does this too: it is named first"},
    RoleRule{.role = "syntactic",
             .word = "syntax",
             .letter = 'Y',
             .sign = "Sy",
             .family = "language",
             .says = "follows a grammatical relation",
             .metric = "syntactic",
             .threshold = 0.1,
             .least_cases = 100,
             .material = "treebank",
             .means = "words whose most attended other word is their governor "
                      "(or dependent) by relation r, in points above the best "
                      "fixed offset; chosen on one half of the sentences, "
                      "reported on the other",
             .trap = "a positional head does well on relations of fixed "
                     "distance: compare with the offset, not with 0"},
    RoleRule{.role = "coreference",
             .word = "coref",
             .letter = 'C',
             .sign = "Co",
             .family = "language",
             .says = "finds what a pronoun or name refers to",
             .metric = "coreference",
             .threshold = 0.1,
             .baseline = "coreference.nearest",
             .second_baseline = "coreference.same-word",
             .least_cases = 100,
             .reads_far = true,
             .material = "coreference",
             .means = "mentions whose head word attends most, among earlier "
                      "mention heads, to an antecedent, in points above the "
                      "better of two baselines: the nearest mention and the "
                      "same head word",
             .trap = "most pronouns repeat themselves: a duplicate head comes "
                     "close to the second baseline without any coreference"},
    RoleRule{.role = "monotone",
             .word = "mono",
             .letter = 'G',
             .sign = "Mo",
             .family = "cross",
             .says = "walks along the source in step",
             .metric = "monotone",
             .threshold = 0.5,
             .scope = RuleScope::kCross,
             .above_chance = 0.3,
             .content = true,
             .means = "cross-attention within two places of the diagonal",
             .trap = "sources of five tokens or fewer are all diagonal"},
    RoleRule{.role = "translation",
             .word = "transl",
             .letter = 'T',
             .sign = "Tr",
             .family = "cross",
             .says = "finds the word to translate",
             .metric = "translation",
             .threshold = 0.1,
             .scope = RuleScope::kCross,
             .baseline = "translation.diagonal",
             .least_cases = 100,
             .material = "sentence pairs",
             .means = "target words whose most attended source word is their "
                      "IBM Model 1 link, in points above the diagonal",
             .trap = "between languages of equal word order the diagonal is "
                     "hard to beat"},
    RoleRule{.role = "source-end",
             .word = "end",
             .letter = 'E',
             .sign = "En",
             .family = "sink",
             .says = "rests on the end of the source",
             .metric = "source-end",
             .threshold = 0.6,
             .scope = RuleScope::kCross,
             .means = "cross-attention to the last source token: a sink",
             .trap = "it is where heads rest when nothing is to be read"},
    RoleRule{.role = "broad",
             .word = "broad",
             .letter = 'B',
             .sign = "Br",
             .family = "broad",
             .says = "spreads over everything it sees",
             .metric = "entropy.normalised",
             .threshold = 0.8,
             .scope = RuleScope::kAll,
             .repeats = OnRepeats::kInstead,
             .below = 0.99,
             .shape = true,
             .means = "entropy near that of uniform attention, yet not equal "
                      "to it",
             .trap = "entropy does not see which keys: shuffled keys are as "
                     "broad. Attention within .01 of uniform reads everything "
                     "alike and gets no role"},
};

}  // namespace

std::span<const RoleRule> RoleRules() { return kRules; }

const RoleRule* FindRule(std::string_view role) {
  const std::string_view stem = role.substr(0, role.find_first_of("( "));
  for (const RoleRule& rule : kRules) {
    if (stem == rule.role) return &rule;
  }
  return nullptr;
}

void RoleThresholds::Set(std::string_view assignment) {
  std::vector<std::string> names = {"argmax", "content-mass"};
  for (const RoleRule& rule : kRules) names.emplace_back(rule.role);
  const size_t equals = assignment.find('=');
  const std::string name(assignment.substr(0, equals));
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"threshold", "a role, argmax or content-mass",
                 fmt::format("\"{}\"", name),
                 fmt::format("did you mean {}?", Nearest(name, names))});
  }
  double value = -1;
  if (equals != assignment.npos) {
    const std::string_view digits = assignment.substr(equals + 1);
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) value = -1;
  }
  if (!(value >= 0 && value <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                {"threshold", name + "=NUMBER between 0 and 1",
                 fmt::format("\"{}\"", assignment), "such as induction=0.5"});
  }
  set_[name] = value;
}

}  // namespace headwise

// Words for metrics and roles. Doors: include/headwise/explain.h, explain.h.
#include "headwise/heads/roles/explain.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <span>

#include "headwise/explain.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/model/checkpoint.h"

namespace headwise {
namespace {

constexpr const char* kOpening =
    R"md(# What heads are measured by

This page is printed by `headwise roles --explain --markdown`; a test holds it
to the program.

A is a head's attention, i a query, j a key. Every number is a mean over rows
with the number of rows and a 95 % interval over sequences, since the tokens of
one sequence are not independent. Layers and heads count from 0: `5.1` is head 1
of layer 5; `decoder:5.1` and `cross:5.1` are those of an encoder–decoder.

**Which rows count.** Special and padding queries and the first of a sequence do
not; neither do rows whose target is invisible, nor rows that see fewer than
`--min-visible` keys (8): over four keys uniform causal attention already puts a
third of its mass on the token before.

**Chance** is what uniform attention over the visible keys would get.

**Sinks** are the first token, special tokens, and keys that draw more than .3
of a head's mass on average. Heads rest there. So every metric about where mass
goes has a second form with the sinks left out: mass divided by c, the mass that
is left, averaged with weight c. A role that holds only so is printed "(when not
at the sink, c = …)", and only where c is at least .1 on average.

**Variants.** Random repeats come in two forms: 25 tokens four times (`25x4`,
the default: `repeats.induction`) and 50 tokens twice (`50x2`:
`repeats-50x2.induction`), in which older figures are given; with one earlier
copy to read, scores are lower. `--repeat-form` chooses. Positions count tokens;
`profile --words` also counts words (`words.previous` …), and `roles --words`
judges by those. `profile --sentences` makes each sentence a sequence of its
own, as rare-token heads were first defined: in a longer window other sentences
draw attention away. `profile --metrics core` gathers only what comes almost
free with the forward pass.

**Words.** Syntax, coreference and translation are measured between words.
Attention to a word that a tokenizer splits is the sum over its pieces, attention
from it their mean (or the first piece's, `--first-piece`). Special tokens and
the word itself do not count. Sentences of more than 512 tokens are left out.

- Dependencies are judged in both directions. Sentences fall into two halves by
  a hash of their text; a head is chosen on one half and reported on the other.
  The baseline is the best fixed distance in words on the same half.
- Coreference looks at mentions that have an antecedent in the window: among the
  head words of earlier mentions, is the most attended one an antecedent's? A
  mention whose only candidates are antecedents cannot be missed and does not
  count; how many those were is told. The head word is found by surface alone: the last before a comma, preposition or
  relative word.
- The row of a target word in cross-attention is the one that predicts it. Links
  come from IBM Model 1, learnt on the given pairs, lower-cased; target words
  that link to no source word are no cases.

## Roles

A head has a role where the whole 95 % interval of its score is past the
threshold: a score of .25 between .16 and .35 is not surely .25. Of one sequence
there is no interval, and the score itself decides. Chance and baselines count
as they are.

A head may have several roles; the one furthest above its threshold is named
first. An offset that ties with the token itself comes before it. Where nothing
passes a head has **no role**: that is an answer. `--thresholds ROLE=NUMBER`
moves a threshold; `argmax=` and `content-mass=` the two that all roles share.

)md";

constexpr const char* kBetween = R"md(
**Heads that hurt** (`rank`): closing the head lowers the loss on two halves of
the text, with false discoveries controlled at 5 %, and by more than a least
size, .1 % of the loss (`--least-negative`). With enough text nearly every head
changes the loss reliably by next to nothing; below that size the classes call a
head quiet. That none hurts is said where no head's interval reaches below that
size, with the predictions that it rests on and the smallest effect that would
have been told from 0 of every head; else it was **not tested** (fewer than four
sequences, or too little text to see such an effect), or is **not testable** (the
distance of an embedding from the whole model's own, which nothing can lower).

**Self-repair** (`rank --self-repair`): the part of a head's direct effect that later
heads take over when it is closed, the sum of the changes of their direct effects
over what is lost of its own. A direct effect is what a head adds to the logit of
the right token, above the mean logit, through the final norm as it was. What
merely flows through later layers is not repair. It is given where what is lost
is certain (its interval does not hold 0).

**Broad and uniform.** Broad is a shape, not a function: it is named last, and
headlines count heads that are only broad apart from those with a role.
Attention that is uniform, up to .01 of normalised entropy, gets no role: it is
what chance gives. Broad heads lie between .80 and .99. Entropy does not see
which keys are read, so shuffling the keys of a broad head leaves it broad; any
other head loses its role.

**Copying.** Whether a head copies what it reads, or suppresses it, is said by
the run alone: `copying.run`, what the head's output adds to the logit of the
token that it reads most. The scores by weights (`copying`,
`copying.vocabulary`) stand beside it. They look at embeddings, which a head
behind the first feed-forward does not read, and can be of the other sign.

**The causal check** (`--confirm`) switches a head off and looks at what its role
would explain: for induction and duplicate heads the loss on repeated tokens, for
previous-token heads the induction score of the induction heads above. Other
roles have no behaviour of their own to look at.

## Metrics

)md";

std::string Cell(const std::string& text) {
  std::string cell;
  for (char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::vector<MetricWords> WordsOfMetrics(
    std::span<const MetricDefinition> definitions) {
  std::vector<MetricWords> words;
  for (const MetricDefinition& one : definitions) {
    words.push_back({one.name, one.sentence, one.trap});
  }
  return words;
}

}  // namespace

std::string Condition(const RoleRule& rule, const RoleThresholds& thresholds) {
  const double threshold = thresholds.Of(rule);
  std::string text =
      rule.least_cases > 0
          ? fmt::format("{:.0f} points above the baseline, {:.0f} cases",
                        100 * threshold, rule.least_cases)
          : fmt::format("{} ≥ {:.2f}", rule.metric, threshold);
  if (rule.positional) {
    text += fmt::format(", or the largest key in {:.0f} % of rows",
                        100 * thresholds.argmax());
  }
  if (rule.above_chance > 0) {
    text += fmt::format(", {:.2f} above chance", rule.above_chance);
  }
  if (rule.times_chance > 0) {
    text += fmt::format(", {:g} times chance", rule.times_chance);
  }
  if (rule.no_offset) text += ", no single offset passes";
  if (std::isfinite(rule.below)) {
    text += fmt::format(", below {:.2f}", rule.below);
  }
  return text;
}

MetricGlossary ExplainMetrics() {
  return {WordsOfMetrics(MetricDefinitions()), WordsOfMetrics(MetricForms()),
          WordsOfMetrics(RowDefinitions())};
}

std::vector<std::string> SpecialTokenNames(const std::filesystem::path& model) {
  const auto tokenizer = Tokenizer::Find(model);
  std::vector<std::string> names;
  for (const int32_t id : SpecialTokens(tokenizer.get(), OpenConfig(model))) {
    const std::optional<std::string> token =
        tokenizer == nullptr ? std::nullopt : tokenizer->Token(id);
    names.push_back(fmt::format("{} ({})", token.value_or("#"), id));
  }
  return names;
}

RoleGlossary ExplainRoles(const RoleJob& job) {
  RoleThresholds thresholds;
  for (const std::string& one : job.thresholds) thresholds.Set(one);
  RoleGlossary all;
  all.content_mass = thresholds.content_mass();
  for (const RoleRule& rule : RoleRules()) {
    all.roles.push_back({rule.role, rule.letter, rule.means,
                         Condition(rule, thresholds), rule.material,
                         rule.trap});
  }
  return all;
}

std::string MetricsPage() {
  std::string page = kOpening;
  page += "| role | what | when | on | trap |\n|---|---|---|---|---|\n";
  for (const RoleWords& role : ExplainRoles().roles) {
    page +=
        fmt::format("| {} | {} | {} | {} | {} |\n", role.role, Cell(role.means),
                    Cell(role.when), role.material, Cell(role.trap));
  }
  page += kBetween;
  page += "| metric | what | trap |\n|---|---|---|\n";
  for (const MetricDefinition& metric : MetricDefinitions()) {
    page += fmt::format("| {} | {} | {} |\n", Cell(metric.name),
                        Cell(metric.sentence), Cell(metric.trap));
  }
  page += "\nForms of a metric:\n\n| form | what |\n|---|---|\n";
  for (const MetricDefinition& form : MetricForms()) {
    page += fmt::format("| {} | {} |\n", Cell(form.name), Cell(form.sentence));
  }
  return page;
}

}  // namespace headwise

// Heads that attend to antecedents. Door: materials.h.
#include <algorithm>
#include <map>
#include <set>

#include "headwise/head_ref.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/heads/profile/words/head_maps.h"
#include "headwise/heads/profile/words/links.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/profile/words/steps.h"
#include "headwise/model/text_frame.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

std::string Lower(std::string_view word) {
  std::string lower;
  for (size_t at = 0; at < word.size();) {
    const CodePoint c = CharacterAt(word, at);
    AppendUtf8(lower, SimpleLowercase(c.value));
    at += c.bytes;
  }
  return lower;
}

// One coreferent mention: the rows of its head word, and the head words of
// earlier mentions with their tokens.
struct Case {
  std::vector<int32_t> rows;
  std::vector<std::vector<int32_t>> candidates;  // tokens, by word
  std::vector<bool> antecedent;                  // one a candidate
};

struct Window {
  std::vector<int32_t> ids;
  std::vector<Case> cases;
  int64_t certain = 0;   // left out: every candidate is an antecedent
  double nearest = 0;    // hits of the nearest mention
  double same_word = 0;  // hits of the nearest mention with the same head word
};

// Sentences [first, last) of the document as one window.
Window MakeWindow(const CoreferenceDocument& document, size_t first,
                  size_t last, const Framer& framer, int64_t context,
                  FromWord from) {
  const int32_t begin = document.sentence_starts[first];
  const int32_t end = document.sentence_starts[last];
  std::string text;
  std::vector<TextSpan> spans;
  for (int32_t w = begin; w < end; ++w) {
    if (!text.empty()) text += ' ';
    const auto at = static_cast<uint32_t>(text.size());
    text += document.words[w];
    spans.push_back({at, static_cast<uint32_t>(text.size())});
  }
  Encoding encoding = framer.Encode(text);
  std::vector<int32_t> word_of_token = WordsOfTokens(encoding, spans);
  Window window;
  window.ids = std::move(encoding.ids);
  if (static_cast<int64_t>(window.ids.size()) > context) {
    window.ids.resize(context);
    word_of_token.resize(context);
  }
  const auto tokens = TokensOfWords(word_of_token, spans.size());

  // Entities by head word; a word may stand for nested mentions.
  std::map<int32_t, std::set<int32_t>> heads;
  for (const Mention& mention : document.mentions) {
    if (mention.begin < begin || mention.end > end) continue;
    const int32_t word = mention.head - begin;
    if (!tokens[word].empty()) heads[word].insert(mention.entity);
  }
  for (const auto& [word, entities] : heads) {
    Case one;
    one.rows = tokens[word];
    if (from == FromWord::kFirstPiece) one.rows.resize(1);
    const std::string form = Lower(document.words[begin + word]);
    bool nearest = false, same_word = false, any = false, all = true;
    for (const auto& [other, others] : heads) {
      if (other >= word) break;
      const bool antecedent = std::any_of(
          entities.begin(), entities.end(),
          [&known = others](int32_t entity) { return known.contains(entity); });
      one.candidates.push_back(tokens[other]);
      one.antecedent.push_back(antecedent);
      any |= antecedent;
      all &= antecedent;
      nearest = antecedent;
      if (Lower(document.words[begin + other]) == form) same_word = antecedent;
    }
    if (!any) continue;
    // Whatever is attended to would be a hit, of heads and baselines alike.
    if (all) {
      ++window.certain;
      continue;
    }
    window.nearest += nearest ? 1 : 0;
    window.same_word += same_word ? 1 : 0;
    window.cases.push_back(std::move(one));
  }
  return window;
}

// Mass on the candidates' tokens by a second pass over those pairs alone: no
// dense rows, however long the window.
class PairHooks : public RunHooks {
 public:
  PairHooks(Context& context, const Window& window, std::vector<Tally>& tallies,
            const std::vector<HeadRef>& heads)
      : context_(context), window_(window), tallies_(tallies), heads_(heads) {
    offsets_.push_back(0);
    for (const Case& one : window.cases) {
      for (const int32_t row : one.rows) {
        rows_.push_back({0, row});
        for (const std::vector<int32_t>& tokens : one.candidates) {
          keys_.insert(keys_.end(), tokens.begin(), tokens.end());
        }
        offsets_.push_back(static_cast<int64_t>(keys_.size()));
      }
    }
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    const auto pairs = static_cast<int64_t>(keys_.size());
    HostResult mass(context_, DType::kF32, {problem.heads, pairs});
    AttentionPairs(context_, problem, args, {rows_, offsets_, keys_}, {},
                   mass.view(), {});
    mass.Fetch(context_);
    for (int64_t h = 0; h < problem.heads; ++h) {
      const size_t index = HeadIndex(heads_, {site.kind, site.layer, h});
      tallies_[index].Add(Hits(mass.As<float>() + h * pairs),
                          static_cast<double>(window_.cases.size()));
    }
  }

 private:
  double Hits(const float* mass) const {
    double hits = 0;
    std::vector<double> sums;
    for (const Case& one : window_.cases) {
      sums.assign(one.candidates.size(), 0.0);
      for (size_t row = 0; row < one.rows.size(); ++row) {
        for (size_t c = 0; c < sums.size(); ++c) {
          for (size_t t = 0; t < one.candidates[c].size(); ++t) {
            sums[c] += *mass++;
          }
        }
      }
      const auto most = std::max_element(sums.begin(), sums.end());
      if (*most > 0 && one.antecedent[most - sums.begin()]) ++hits;
    }
    return hits;
  }

  Context& context_;
  const Window& window_;
  std::vector<Tally>& tallies_;
  const std::vector<HeadRef>& heads_;
  std::vector<RowRef> rows_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> keys_;
};

class Coreference {
 public:
  Coreference(Context& context, const Model& model, const Tokenizer& tokenizer,
              const WordOptions& options, const Profile& profile)
      : context_(context),
        model_(model),
        tokenizer_(tokenizer),
        framer_(tokenizer, model.config()),
        options_(options),
        heads_(profile.heads),
        hits_(heads_.size()) {
    length_ = ContextOf(model.config(), options.context);
  }

  void Add(const CoreferenceDocument& document) {
    const size_t sentences = document.sentence_starts.size() - 1;
    for (size_t first = 0; first < sentences;) {
      size_t last = first;
      int64_t tokens = framer_.size();
      while (last < sentences) {
        tokens += SentenceTokens(document, last);
        if (tokens > length_ && last > first) break;
        ++last;
      }
      if (tokens > length_ && last == first + 1) ++counts_.too_long;
      Run(MakeWindow(document, first, last, framer_, length_, options_.from));
      first = last;
    }
  }

  void AddTo(Profile& profile) const {
    AddTallies(profile, "coreference", hits_);
    profile.baselines["coreference.nearest"].Merge(nearest_);
    profile.baselines["coreference.same-word"].Merge(same_word_);
    if (!certain_.empty()) profile.baselines[kCertainMentions].Merge(certain_);
  }
  const WordCounts& counts() const { return counts_; }

 private:
  int64_t SentenceTokens(const CoreferenceDocument& document, size_t s) const {
    std::string text;
    for (int32_t w = document.sentence_starts[s];
         w < document.sentence_starts[s + 1]; ++w) {
      text += ' ' + document.words[w];
    }
    return static_cast<int64_t>(
        tokenizer_.Encode(text, {.add_special_tokens = false}).size());
  }

  void Run(const Window& window) {
    counts_.certain += window.certain;
    certain_.Add(static_cast<double>(window.certain),
                 static_cast<double>(window.certain));
    if (window.cases.empty()) return;
    PairHooks hooks(context_, window, hits_, heads_);
    TokenBatch batch;
    batch.Add(window.ids);
    RunStack(context_, model_, batch, hooks);
    const auto cases = static_cast<double>(window.cases.size());
    nearest_.Add(window.nearest, cases);
    same_word_.Add(window.same_word, cases);
    ++counts_.sequences;
    counts_.cases += static_cast<int64_t>(window.cases.size());
  }

  Context& context_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  Framer framer_;
  const WordOptions& options_;
  const std::vector<HeadRef>& heads_;
  int64_t length_ = 0;
  std::vector<Tally> hits_;
  Tally nearest_, same_word_, certain_;
  WordCounts counts_;
};

}  // namespace

WordCounts AddCoreference(Context& context, const Model& model,
                          const Tokenizer& tokenizer,
                          std::span<const CoreferenceDocument> documents,
                          const WordOptions& options, Profile& profile) {
  Coreference coreference(context, model, tokenizer, options, profile);
  for (size_t d = 0; d < documents.size(); ++d) {
    ReportOrStop(options, "coreference", d, documents.size());
    coreference.Add(documents[d]);
  }
  coreference.AddTo(profile);
  return coreference.counts();
}

}  // namespace headwise

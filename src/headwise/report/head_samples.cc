// Dense attention of short texts. Door: head_evidence.h.
#include "headwise/report/head_evidence.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "headwise/report/token_text.h"
#include "headwise/runtime/activations.h"

namespace headwise {
namespace {

constexpr int64_t kShownTokens = 28;  // of a text that is drawn
constexpr size_t kSaidTwice = 9;      // words of the repeated sample
constexpr size_t kTopKeys = 6;

// The beginning of a row of tokens, in its frame.
TokenRow Beginning(const TokenRow& row, int64_t most) {
  if (row.size() <= most) return row;
  int64_t after = 0;  // tokens of the frame at the end
  while (after < row.size() && row.added[row.size() - 1 - after] != 0) ++after;
  TokenRow cut;
  for (int64_t i = 0; i < row.size(); ++i) {
    if (i >= most - after && i < row.size() - after) continue;
    cut.ids.push_back(row.ids[i]);
    cut.added.push_back(row.added[i]);
  }
  return cut;
}

TokenWindow Beginning(const TokenWindow& window, int64_t most) {
  TokenWindow cut;
  cut.source = Beginning(window.source, most);
  cut.target = Beginning(window.target, most);
  return cut;
}

// weights of every head on one window: "kind layer" → probs [1, H, M, N].
class Attentions {
 public:
  Attentions(Context& context, const Model& model, const TokenWindow& window) {
    const std::vector<int64_t> source = {window.source.size()};
    const std::vector<int64_t> target = {window.target.size()};
    ForwardInput input{.ids = window.source.ids, .lengths = source};
    if (model.decoder() != nullptr) {
      input.decoder_ids = window.target.ids;
      input.decoder_lengths = target;
    }
    probs_ = RecordActivations(context, model, input, {"*.probs"});
  }

  // [queries · keys] of one head.
  std::vector<float> Of(const Model& model, const HeadRef& head) const {
    const auto& layer = *AttentionLayers(model, head.kind)[head.layer];
    const Tensor& all = probs_.at(layer.site().name + ".probs");
    const int64_t size = all.shape(2) * all.shape(3);
    const float* first = all.As<float>() + head.head * size;
    return {first, first + size};
  }

 private:
  std::map<std::string, Tensor> probs_;
};

void AddSample(Context& context, const Model& model, const TokenWindow& window,
               const std::string& title, std::vector<AttentionSample>& out) {
  const Attentions attentions(context, model, window);
  const std::vector<HeadRef> heads = AllHeads(model);
  std::set<AttentionKind> kinds;
  for (const HeadRef& head : heads) kinds.insert(head.kind);
  for (const AttentionKind kind : kinds) {
    AttentionSample sample;
    sample.title = title;
    sample.kind = kind;
    const bool source_looks = kind == AttentionKind::kSelf;
    const bool source_seen = kind != AttentionKind::kDecoder;
    sample.queries = source_looks ? window.source.ids : window.target.ids;
    sample.keys = source_seen ? window.source.ids : window.target.ids;
    for (const HeadRef& head : heads) {
      sample.weights.push_back(head.kind == kind ? attentions.Of(model, head)
                                                 : std::vector<float>());
    }
    out.push_back(std::move(sample));
  }
}

// Frequent words said twice, in the frame of a window.
TokenWindow SaidTwice(const TokenWindow& like, std::span<const int32_t> words) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < like.source.size() && like.source.added[i] != 0;
       ++i) {
    ids.push_back(like.source.ids[i]);
  }
  const auto frame = static_cast<int64_t>(ids.size());
  for (int copy = 0; copy < 2; ++copy) {
    ids.insert(ids.end(), words.begin(), words.end());
  }
  return WindowOfIds(std::move(ids), frame);
}

// What one head gave to each token, and by how many rows.
struct KeyMass {
  std::map<int32_t, double> tokens;
  double rows = 0;
};

// Adds what each head gives to each token; rows of the frame do not count.
void AddKeys(Context& context, const Model& model, const TokenWindow& window,
             const std::vector<HeadRef>& heads, std::vector<KeyMass>& mass) {
  const Attentions attentions(context, model, window);
  for (size_t h = 0; h < heads.size(); ++h) {
    const bool source_looks = heads[h].kind == AttentionKind::kSelf;
    const bool source_seen = heads[h].kind != AttentionKind::kDecoder;
    const TokenRow& rows = source_looks ? window.source : window.target;
    const TokenRow& keys = source_seen ? window.source : window.target;
    const std::vector<float> weights = attentions.Of(model, heads[h]);
    for (int64_t i = 0; i < rows.size(); ++i) {
      if (rows.added[i] != 0) continue;
      mass[h].rows += 1;
      for (int64_t j = 1; j < keys.size(); ++j) {
        if (keys.added[j] != 0) continue;
        mass[h].tokens[keys.ids[j]] += weights[i * keys.size() + j];
      }
    }
  }
}

std::vector<std::pair<int32_t, double>> Largest(const KeyMass& mass) {
  std::vector<std::pair<int32_t, double>> all(mass.tokens.begin(),
                                              mass.tokens.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second > b.second;
  });
  if (all.size() > kTopKeys) all.resize(kTopKeys);
  for (auto& [id, value] : all) value /= std::max(mass.rows, 1.0);
  return all;
}

}  // namespace

HeadSamples SampleHeads(Context& context, const Model& model,
                        const Tokenizer& tokenizer,
                        std::span<const TokenWindow> windows) {
  HeadSamples result;
  // From the middle: a text's first words are often its title.
  AddSample(context, model,
            Beginning(windows[windows.size() / 2], kShownTokens),
            "From the text", result.samples);
  const std::vector<int32_t> words =
      FrequentWords(tokenizer, windows, kSaidTwice);
  if (model.config().causal && model.decoder() == nullptr &&
      words.size() >= 3) {
    AddSample(context, model, SaidTwice(windows[0], words), "Words said twice",
              result.samples);
  }
  const std::vector<HeadRef> heads = AllHeads(model);
  std::vector<KeyMass> mass(heads.size());
  for (const TokenWindow& window : windows) {
    AddKeys(context, model, Beginning(window, kSampleTokens), heads, mass);
  }
  result.windows = static_cast<int64_t>(windows.size());
  for (const KeyMass& one : mass) result.top_keys.push_back(Largest(one));
  return result;
}

std::vector<int32_t> FrequentWords(const Tokenizer& tokenizer,
                                   std::span<const TokenWindow> windows,
                                   size_t most) {
  std::map<int32_t, int64_t> counts;
  for (const TokenWindow& window : windows) {
    for (const int32_t id : window.source.ids) ++counts[id];
  }
  std::vector<std::pair<int32_t, int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  const TokenText text(&tokenizer);
  std::vector<int32_t> words;
  for (const auto& [id, count] : order) {
    if (words.size() == most) break;
    // Whole words, longer than the commonest ones: they carry content.
    if (const std::string word = text.Of(id);
        word.size() > 4 && word[0] == ' ' && IsWord(word)) {
      words.push_back(id);
    }
  }
  return words;
}

}  // namespace headwise

// Study one-per-layer (literature: Michel et al. 2019, where most layers of a
// translator did with one head and the last cross-attention broke). Claim: of
// each layer one head is enough.
// Expectation, fixed before the first run: where all heads of one layer but its
// best leave, at least half of the layers lose no more than 5 % of what all
// heads are worth; the last cross-attention loses more than the others on
// average; the best head loses less than a random one, in one layer as in all
// layers at once. The best is chosen on other sentences than those that judge.
//
// The language: clauses "adjective noun verb adjective noun" whose translation
// has nouns before adjectives and the verb at the end; each word has two
// translations, of which either may stand, so that no loss can reach 0.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/heads/importance/examples.h"
#include "headwise/study/study.h"
#include "headwise/study/support/pruned.h"
#include "headwise/study/support/shipped.h"
#include "headwise/study/support/story.h"
#include "headwise/train/pair_batches.h"

namespace headwise {
namespace one_per_layer_study {
namespace {

constexpr int64_t kLayers = 3, kHeads = 8;
constexpr int64_t kSentences = 128;        // of each split
constexpr int64_t kTrainSentences = 8192;  // of a seed
constexpr double kUncounted = 0.05;        // of what all heads are worth
constexpr int64_t kRandomChoices = 5;
constexpr size_t kQuickWindows = 8;  // of the shipped model's text
// Special tokens, then adjectives, nouns and verbs, then the translations of
// these, two of each.
constexpr int32_t kEos = 1, kPad = 2, kFirstWord = 3;
constexpr int32_t kAdjectives = 10, kNouns = 10, kVerbs = 6;
constexpr int32_t kWords = kAdjectives + kNouns + kVerbs;
constexpr int64_t kVocabulary = kFirstWord + 3 * kWords;
constexpr int64_t kLongest = 32;

TokenPair MakeSentence(Rng& rng) {
  TokenPair pair;
  const auto word = [&](int32_t first, int32_t count) {
    return first +
           static_cast<int32_t>(rng.Below(static_cast<uint64_t>(count)));
  };
  const auto say = [&](int32_t of) {
    pair.target.push_back(kFirstWord + kWords + 2 * (of - kFirstWord) +
                          static_cast<int32_t>(rng.Below(2)));
  };
  const auto clauses = 1 + static_cast<int64_t>(rng.Below(3));
  for (int64_t clause = 0; clause < clauses; ++clause) {
    const int32_t adjective = kFirstWord, noun = adjective + kAdjectives,
                  verb = noun + kNouns;
    const int32_t said[] = {word(adjective, kAdjectives), word(noun, kNouns),
                            word(verb, kVerbs), word(adjective, kAdjectives),
                            word(noun, kNouns)};
    pair.source.insert(pair.source.end(), std::begin(said), std::end(said));
    for (const int place : {1, 0, 4, 3, 2}) say(said[place]);
  }
  return pair;
}

std::vector<TokenPair> MakeSentences(uint64_t seed, int64_t count) {
  std::vector<TokenPair> pairs;
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(seed, static_cast<uint64_t>(i));
    pairs.push_back(MakeSentence(rng));
  }
  return pairs;
}

std::vector<TextExample> Examples(uint64_t seed) {
  std::vector<TextExample> examples;
  for (TokenPair& pair : MakeSentences(seed, kSentences)) {
    pair.source.push_back(kEos);
    pair.target.insert(pair.target.begin(), kPad);
    pair.target.push_back(kEos);
    examples.push_back({std::move(pair.source), std::move(pair.target), {}});
  }
  return examples;
}

Json Translator() {
  constexpr int64_t kWidth = 64;
  return {{"model_type", "marian"},
          {"d_model", kWidth},
          {"encoder_layers", kLayers},
          {"decoder_layers", kLayers},
          {"encoder_attention_heads", kHeads},
          {"decoder_attention_heads", kHeads},
          {"encoder_ffn_dim", 2 * kWidth},
          {"decoder_ffn_dim", 2 * kWidth},
          {"max_position_embeddings", kLongest},
          {"activation_function", "relu"},
          {"scale_embedding", true},
          {"vocab_size", kVocabulary},
          {"eos_token_id", kEos},
          {"pad_token_id", kPad},
          {"decoder_start_token_id", kPad}};
}

// The heads of one attention layer.
struct Layer {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t number = 0;
  HeadSet heads;

  std::string name() const { return fmt::format("{} {}", Name(kind), number); }
  HeadSet AllBut(size_t kept) const {
    HeadSet others = heads;
    others.erase(others.begin() + static_cast<int64_t>(kept));
    return others;
  }
};

std::vector<Layer> LayersOf(const Model& model) {
  std::vector<Layer> layers;
  for (const HeadRef& head : AllHeads(model)) {
    if (layers.empty() || layers.back().kind != head.kind ||
        layers.back().number != head.layer) {
      layers.push_back({head.kind, head.layer, {}});
    }
    layers.back().heads.push_back(head);
  }
  return layers;
}

// [layer][head]: the rise of the loss when the layer keeps that head alone.
using Rises = std::vector<std::vector<double>>;

Rises OnlyOne(const std::vector<Layer>& layers, const JudgedText& text) {
  std::vector<HeadSet> sets;
  for (const Layer& layer : layers) {
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      sets.push_back(layer.AllBut(h));
    }
  }
  const std::vector<double> losses = LossesClosed(text, sets);
  Rises rises;
  size_t next = 0;
  for (const Layer& layer : layers) {
    std::vector<double>& own = rises.emplace_back();
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      own.push_back(losses[next++] - text.loss());
    }
  }
  return rises;
}

// All layers at once: the heads that leave where these stay.
HeadSet AllBut(const std::vector<Layer>& layers,
               const std::vector<size_t>& kept) {
  HeadSet set;
  for (size_t i = 0; i < layers.size(); ++i) {
    const HeadSet others = layers[i].AllBut(kept[i]);
    set.insert(set.end(), others.begin(), others.end());
  }
  return set;
}

// What one model told.
struct Told {
  std::vector<Layer> layers;
  std::vector<double> best, random;  // rises, by layer
  double loss = 0, worth = 0;        // of all heads together
  double all_best = 0, all_random = 0;

  double Enough() const {
    const auto fine = std::count_if(best.begin(), best.end(), [&](double rise) {
      return rise <= kUncounted * worth;
    });
    return static_cast<double>(fine) / static_cast<double>(best.size());
  }
};

Told Look(Context& context, const Model& model,
          std::span<const TextExample> choose,
          std::span<const TextExample> judge, uint64_t seed) {
  Told told;
  told.layers = LayersOf(model);
  const Rises chosen =
      OnlyOne(told.layers, JudgedText(context, model, choose, {}));
  const JudgedText text(context, model, judge, {});
  const Rises rises = OnlyOne(told.layers, text);
  std::vector<size_t> best;
  for (size_t i = 0; i < rises.size(); ++i) {
    best.push_back(static_cast<size_t>(
        std::min_element(chosen[i].begin(), chosen[i].end()) -
        chosen[i].begin()));
    told.best.push_back(rises[i][best[i]]);
    told.random.push_back(MeanOf(rises[i]));
  }
  std::vector<HeadSet> sets = {AllHeads(model), AllBut(told.layers, best)};
  Rng rng(seed, 1);
  for (int64_t i = 0; i < kRandomChoices; ++i) {
    std::vector<size_t> any;
    for (const Layer& layer : told.layers) {
      any.push_back(rng.Below(layer.heads.size()));
    }
    sets.push_back(AllBut(told.layers, any));
  }
  const std::vector<double> losses = LossesClosed(text, sets);
  told.loss = text.loss();
  told.worth = losses[0] - told.loss;
  told.all_best = losses[1] - told.loss;
  told.all_random = MeanOf(std::span(losses).subspan(2)) - told.loss;
  return told;
}

StudyTable TableOf(const std::string& title, const Told& told) {
  StudyTable table{
      title, {"layer", "best head alone", "random head alone"}, {}};
  const auto share = [&](double rise) {
    return fmt::format("{:+.4f} ({:.1f} %)", rise, 100 * rise / told.worth);
  };
  for (size_t i = 0; i < told.layers.size(); ++i) {
    table.rows.push_back(
        {told.layers[i].name(), share(told.best[i]), share(told.random[i])});
  }
  table.rows.push_back(
      {"all at once", share(told.all_best), share(told.all_random)});
  return table;
}

template <typename Get>
SeedMean Over(const std::vector<Told>& all, const Get& get,
              const Bounds& bounds = {}) {
  std::vector<double> values;
  for (const Told& told : all) values.push_back(get(told));
  return OverSeeds(values, bounds);
}

void Judge(const std::vector<Told>& all, StudyResult& result) {
  result.AtLeast(
      "share of layers for which one head is enough",
      Over(
          all, [](const Told& told) { return told.Enough(); }, kShare),
      0.5);
  result.AtLeast(
      "rise, last cross-attention − mean of the other layers, of the worth",
      Over(all,
           [](const Told& told) {
             const std::span<const double> others(told.best.data(),
                                                  told.best.size() - 1);
             return (told.best.back() - MeanOf(others)) / told.worth;
           }),
      0);
  result.AtLeast("rise in one layer, random head − best head, of the worth",
                 Over(all,
                      [](const Told& told) {
                        return (MeanOf(told.random) - MeanOf(told.best)) /
                               told.worth;
                      }),
                 0);
  result.AtLeast(
      "rise in all layers at once, random heads − best heads, of "
      "the worth",
      Over(all,
           [](const Told& told) {
             return (told.all_random - told.all_best) / told.worth;
           }),
      0);
  result.Report(
      "rise in all layers at once, best heads, of the worth",
      Over(all, [](const Told& told) { return told.all_best / told.worth; }));
  result.Report("rise, last cross-attention, of the worth",
                Over(all, [](const Told& told) {
                  return told.best.back() / told.worth;
                }));
}

void Draw(const Told& told, StudyResult& result) {
  result.tables.push_back(TableOf(
      "Rise of the loss, nats (of what all heads are worth), seed 1", told));
  Series best{"best head", {}, {}}, random{"random head", {}, {}};
  for (size_t i = 0; i < told.best.size(); ++i) {
    best.x.push_back(static_cast<double>(i));
    random.x.push_back(static_cast<double>(i));
    best.y.push_back(told.best[i] / told.worth);
    random.y.push_back(told.random[i] / told.worth);
  }
  result.pictures.push_back(
      LinePlot{"One head left in one layer, seed 1",
               "layer: encoder, decoder, cross-attention",
               "rise of the loss, of what all heads are worth",
               false,
               false,
               {std::move(best), std::move(random)}});
}

// Information: one model, no seeds.
void TellShipped(Context& context, const StudyRequest& request,
                 StudyResult& result) {
  if (request.model.empty()) {
    result.remark += " The shipped model is not here.";
    return;
  }
  result.InformOnly();
  const TrainedReader reader(request.model, request.reading);
  std::vector<TextExample> examples = ExamplesOf(reader.windows());
  if (!request.full && examples.size() > kQuickWindows) {
    examples.resize(kQuickWindows);
  }
  const std::span<const TextExample> all = examples;
  const size_t half = all.size() / 2;
  if (half == 0) return;
  const Told told =
      Look(context, reader.model(), all.first(half), all.subspan(half), 1);
  result.tables.push_back(
      TableOf("The shipped model: rise of the loss, nats", told));
  result.Report("shipped: share of layers for which one head is enough",
                told.Enough());
  result.Report("shipped: rise in all layers at once, best heads, of the worth",
                told.all_best / told.worth);
  result.Report(
      "shipped: rise in all layers at once, random heads, of the worth",
      told.all_random / told.worth);
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 500, 4000);
  StudyClock clock(request, "one-per-layer", steps * std::ssize(result.seeds));
  const auto trained = RunCases(
      context, 1, result.seeds,
      [&](Context& own, size_t /*only*/, uint64_t seed) {
        TrainConfig how = StoryTraining(seed, steps);
        how.batch = 32;
        TinyModel tiny(own, Translator(), how);
        PairOptions options;
        options.start = kPad;
        options.eos = kEos;
        options.seed = seed;
        tiny.Train(PairBatches(MakeSentences(seed, kTrainSentences), options),
                   clock);
        return Look(own, tiny.model(), Examples(kHeldOutSeed),
                    Examples(kSecondHeldOutSeed), seed);
      });
  const std::vector<Told>& all = trained[0];
  Judge(all, result);
  Draw(all[0], result);
  result.remark = fmt::format(
      "A translator of {0} encoder and {0} decoder layers of {1} heads, "
      "trained on a made-up language. Loss {2:.3f} whole, {3:.3f} with every "
      "head closed, {4:.3f} by guessing; at best {5:.3f} a word and 0 for the "
      "end. A share of layers below 0.05 or above 0.95 decides nothing.",
      kLayers, kHeads, all[0].loss, all[0].loss + all[0].worth,
      std::log(static_cast<double>(kVocabulary)), std::log(2.0));
  TellShipped(context, request, result);
  return result;
}

}  // namespace
}  // namespace one_per_layer_study

const Study kOnePerLayerStudy = {
    .name = "one-per-layer",
    .claim = "Of each layer one head is enough.",
    .expectation =
        "for at least half of the layers; the last cross-attention breaks; the "
        "best head is better than a random one",
    .kind = StudyKind::kLiterature,
    .run = one_per_layer_study::Run,
    .trained = true};

}  // namespace headwise

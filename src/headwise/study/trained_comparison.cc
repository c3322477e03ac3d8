// Trained models beside each other. Door: trained_comparison.h.
#include "headwise/study/trained_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/runtime/token_labels.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

// A model and the sentence as its tokens.
struct Reader {
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  TokenWindow window;
};

Reader Read(const fs::path& folder, std::string_view sentence) {
  Reader reader;
  reader.model = OpenModel(folder);
  if (reader.model->decoder() != nullptr) {
    RefuseComparison("models of one text",
                     folder.string() + ", an encoder–decoder");
  }
  reader.tokenizer = Tokenizer::Load(folder);
  Document document;
  document.text = sentence;
  const WindowCutter cutter(*reader.tokenizer, reader.model->config());
  std::vector<TokenWindow> windows = cutter.Cut(document);
  if (windows.empty()) {
    RefuseComparison(
        "a sentence of at least two tokens", "fewer",
        "for example: headwise compare \"The cat sat on the mat\"");
  }
  reader.window = std::move(windows[0]);
  const int64_t tokens = reader.window.source.size();
  if (windows.size() > 1 || tokens > kMaxCompareWords) {
    RefuseComparison(fmt::format("at most {} tokens", kMaxCompareWords),
                     fmt::format("{}", tokens), "give one sentence");
  }
  return reader;
}

void CheckAlike(const std::vector<Reader>& readers) {
  const Reader& first = readers.front();
  for (const Reader& reader : readers) {
    if (reader.window.source.ids != first.window.source.ids) {
      RefuseComparison("models that share a tokenizer", "different tokens");
    }
    if (reader.model->config().layers.size() !=
        first.model->config().layers.size()) {
      RefuseComparison(
          "models with as many layers",
          fmt::format("{} and {}", first.model->config().layers.size(),
                      reader.model->config().layers.size()));
    }
  }
}

// Every layer's heads on the sentence.
std::vector<HeadSet> ReadLayers(Context& context, const Reader& reader) {
  const ModelConfig& config = reader.model->config();
  MapOptions options;
  options.most_cells = kMaxCompareWords;
  std::vector<std::vector<Matrix>> maps(config.layers.size());
  for (const MappedHead& head : MapHeads(context, *reader.model, reader.window,
                                         AllHeads(*reader.model), options)) {
    Matrix map(head.rows, head.columns);
    std::copy(head.values.begin(), head.values.end(), map.values.begin());
    maps[head.head.layer].push_back(std::move(map));
  }
  std::vector<HeadSet> sets;
  for (size_t layer = 0; layer < maps.size(); ++layer) {
    const LayerShape& shape = config.layers[layer];
    sets.push_back(SetOfMaps(std::move(maps[layer])));
    sets.back().head_dim = config.head_dim;
    sets.back().parameters =
        2 * (shape.heads + shape.kv_heads) * config.head_dim * config.width;
  }
  return sets;
}

// Where the heads are worth most distinct distributions.
int64_t MostDistinct(const std::vector<HeadSet>& layers) {
  return std::max_element(layers.begin(), layers.end(),
                          [](const HeadSet& a, const HeadSet& b) {
                            return a.distinct < b.distinct;
                          }) -
         layers.begin();
}

}  // namespace

Comparison CompareTrained(Context& context, std::string_view sentence,
                          const std::vector<fs::path>& models,
                          std::optional<int64_t> layer) {
  std::vector<Reader> readers;
  for (const fs::path& folder : models) {
    readers.push_back(Read(folder, sentence));
  }
  if (readers.empty()) RefuseComparison("at least one model", "none");
  CheckAlike(readers);
  const Reader& last = readers.back();
  const auto layers = static_cast<int64_t>(last.model->config().layers.size());
  if (layer && (*layer < 0 || *layer >= layers)) {
    RefuseComparison(fmt::format("a layer from 0 to {}", layers - 1),
                     fmt::format("{}", *layer));
  }
  std::vector<std::vector<HeadSet>> sets;
  for (const Reader& reader : readers) {
    sets.push_back(ReadLayers(context, reader));
  }
  const int64_t chosen = layer ? *layer : MostDistinct(sets.back());
  Comparison comparison;
  comparison.sentence = sentence;
  comparison.words = TokenLabels(last.window.source, *last.tokenizer);
  comparison.trained = true;
  comparison.layer = chosen;
  for (std::vector<HeadSet>& of_model : sets) {
    AddSet(std::move(of_model[chosen]), comparison);
  }
  comparison.about = fmt::format(
      "Trained models, alike but for the number of heads; layer {} of {}, "
      "counted from 0{}.",
      chosen, layers,
      layer ? "" : ": the one in which the heads differ most here");
  comparison.command = fmt::format("--layer {}", chosen);
  return comparison;
}

}  // namespace headwise

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

[[noreturn]] void Refuse(std::string expected, std::string found,
                         std::string hint = "") {
  throw Error(ErrorCode::kInvalidArgument, {"compare", std::move(expected),
                                            std::move(found), std::move(hint)});
}

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
    Refuse("models of one text", folder.string() + ", an encoder–decoder");
  }
  reader.tokenizer = Tokenizer::Load(folder);
  Document document;
  document.text = sentence;
  const WindowCutter cutter(*reader.tokenizer, reader.model->config());
  std::vector<TokenWindow> windows = cutter.Cut(document);
  if (windows.empty()) {
    Refuse("a sentence of at least two tokens", "fewer",
           "for example: headwise compare \"The cat sat on the mat\"");
  }
  reader.window = std::move(windows[0]);
  const int64_t tokens = reader.window.source.size();
  if (windows.size() > 1 || tokens > kMaxCompareWords) {
    Refuse(fmt::format("at most {} tokens", kMaxCompareWords),
           fmt::format("{}", tokens), "give one sentence");
  }
  return reader;
}

void CheckAlike(const std::vector<Reader>& readers) {
  const Reader& first = readers.front();
  for (const Reader& reader : readers) {
    if (reader.window.source.ids != first.window.source.ids) {
      Refuse("models that share a tokenizer", "different tokens");
    }
    if (reader.model->config().layers.size() !=
        first.model->config().layers.size()) {
      Refuse("models with as many layers",
             fmt::format("{} and {}", first.model->config().layers.size(),
                         reader.model->config().layers.size()));
    }
  }
}

HeadSet ReadLayer(Context& context, const Reader& reader, int64_t layer) {
  std::vector<HeadRef> heads = AllHeads(*reader.model);
  std::erase_if(heads,
                [&](const HeadRef& head) { return head.layer != layer; });
  MapOptions options;
  options.most_cells = kMaxCompareWords;
  std::vector<Matrix> maps;
  for (const MappedHead& head :
       MapHeads(context, *reader.model, reader.window, heads, options)) {
    Matrix map(head.rows, head.columns);
    std::copy(head.values.begin(), head.values.end(), map.values.begin());
    maps.push_back(std::move(map));
  }
  HeadSet set = SetOfMaps(std::move(maps));
  const ModelConfig& config = reader.model->config();
  const LayerShape& shape = config.layers[layer];
  set.head_dim = config.head_dim;
  set.parameters =
      2 * (shape.heads + shape.kv_heads) * config.head_dim * config.width;
  return set;
}

// Where the heads are worth most distinct distributions.
int64_t MostDistinct(Context& context, const Reader& reader) {
  int64_t best = 0;
  double most = 0;
  const auto layers =
      static_cast<int64_t>(reader.model->config().layers.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    const double distinct = ReadLayer(context, reader, layer).distinct;
    if (distinct <= most) continue;
    most = distinct;
    best = layer;
  }
  return best;
}

}  // namespace

Comparison CompareTrained(Context& context, std::string_view sentence,
                          const std::vector<fs::path>& models,
                          std::optional<int64_t> layer) {
  std::vector<Reader> readers;
  for (const fs::path& folder : models) {
    readers.push_back(Read(folder, sentence));
  }
  if (readers.empty()) Refuse("at least one model", "none");
  CheckAlike(readers);
  const Reader& last = readers.back();
  const auto layers = static_cast<int64_t>(last.model->config().layers.size());
  if (layer && (*layer < 0 || *layer >= layers)) {
    Refuse(fmt::format("a layer from 0 to {}", layers - 1),
           fmt::format("{}", *layer));
  }
  const int64_t chosen = layer ? *layer : MostDistinct(context, last);
  Comparison comparison;
  comparison.sentence = sentence;
  comparison.words = TokenLabels(last.window.source, *last.tokenizer);
  comparison.trained = true;
  for (const Reader& reader : readers) {
    AddSet(ReadLayer(context, reader, chosen), comparison);
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

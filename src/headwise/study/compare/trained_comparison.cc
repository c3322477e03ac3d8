// Trained models beside each other. Door: trained_comparison.h.
#include "headwise/study/compare/trained_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/runtime/token_labels.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

// A model and the sentence as its tokens.
struct Reader {
  std::string name;
  Checkpoint checkpoint;
  TokenWindow window;

  const Model& model() const { return checkpoint.model(); }
};

Reader Read(const fs::path& folder, std::string_view sentence, DType type) {
  Reader reader{
      .name = "", .checkpoint = Checkpoint(folder, {}, type), .window = {}};
  const Model& model = reader.model();
  const fs::path whole = fs::absolute(folder).lexically_normal();
  reader.name =
      (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  if (model.decoder() != nullptr) {
    RefuseComparison("models of one text",
                     folder.string() + ", an encoder–decoder");
  }
  Document document;
  document.text = sentence;
  const WindowCutter cutter(reader.checkpoint.tokenizer(), model.config());
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

int64_t LayersOf(const Reader& reader) {
  return static_cast<int64_t>(reader.model().config().layers.size());
}

bool EquallyDeep(const std::vector<Reader>& readers) {
  return std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
    return LayersOf(reader) == LayersOf(readers.front());
  });
}

// Every layer's heads on the sentence.
std::vector<ComparedHeads> ReadLayers(Context& context, const Reader& reader) {
  const ModelConfig& config = reader.model().config();
  ShowJob job;
  job.cells = kMaxCompareWords;
  std::vector<std::vector<Matrix>> maps(config.layers.size());
  for (const MappedHead& head : MapHeads(context, reader.model(), reader.window,
                                         AllHeads(reader.model()), job)) {
    Matrix map(head.rows, head.columns);
    std::copy(head.values.begin(), head.values.end(), map.values.begin());
    maps[head.head.layer].push_back(std::move(map));
  }
  std::vector<ComparedHeads> sets;
  for (size_t layer = 0; layer < maps.size(); ++layer) {
    const LayerShape& shape = config.layers[layer];
    if (maps[layer].empty()) {  // all its heads were taken away
      sets.emplace_back().heads = 0;
      continue;
    }
    sets.push_back(SetOfMaps(std::move(maps[layer])));
    sets.back().tokens =
        TokenLabels(reader.window.source, reader.checkpoint.tokenizer());
    sets.back().layer = static_cast<int64_t>(layer);
    sets.back().head_dim = config.HeadDim(shape);
    sets.back().parameters =
        (shape.heads + (shape.keys_of < 0 ? shape.kv_heads : 0)) *
        (config.HeadDim(shape) + config.ValueDim(shape)) * config.width;
  }
  return sets;
}

// Where the heads are worth most distinct distributions; one head is worth 1.
int64_t MostDistinct(const std::vector<ComparedHeads>& layers) {
  return std::max_element(layers.begin(), layers.end(),
                          [](const ComparedHeads& a, const ComparedHeads& b) {
                            return a.distinct < b.distinct;
                          }) -
         layers.begin();
}

// What the heads of a layer do on random repeats; "" for no role.
std::vector<std::string> RolesIn(Context& context, const Reader& reader,
                                 int64_t layer,
                                 const TrainedComparison& asked) {
  ProfileOptions options;
  options.on_progress = asked.progress;
  Profiler profiler(context, reader.model(), &reader.checkpoint.tokenizer(),
                    reader.name, "", options);
  profiler.AddProbes();
  std::vector<std::string> roles;
  for (const HeadRoles& head : AssignRoles(profiler.Take())) {
    if (head.head.layer != layer) continue;
    roles.push_back(head.roles.empty() ? "" : head.roles.front().name);
  }
  return roles;
}

std::vector<Reader> ReadAll(std::string_view sentence,
                            const TrainedComparison& asked) {
  std::vector<Reader> readers;
  for (const fs::path& folder : asked.models) {
    readers.push_back(Read(folder, sentence, asked.type));
    const int64_t layers = LayersOf(readers.back());
    if (asked.layer && (*asked.layer < 0 || *asked.layer >= layers)) {
      RefuseComparison(fmt::format("a layer from 0 to {}{}", layers - 1,
                                   asked.named ? " of " + folder.string() : ""),
                       fmt::format("{}", *asked.layer));
    }
  }
  if (readers.empty()) RefuseComparison("at least one model", "none");
  return readers;
}

// "layer 3 of 6"
std::string Depth(const Reader& reader, int64_t layer) {
  return fmt::format("layer {} of {}", layer, LayersOf(reader));
}

std::string About(const std::vector<Reader>& readers,
                  const Comparison& comparison,
                  const TrainedComparison& asked) {
  if (!asked.named) {
    return fmt::format(
        "Trained models, alike but for the number of heads; {}, counted from "
        "0{}.",
        Depth(readers.back(), comparison.sets.back().layer),
        asked.layer ? "" : ": the one in which the heads differ most here");
  }
  std::string about = "Trained models: ";
  for (size_t i = 0; i < readers.size(); ++i) {
    about += fmt::format("{}{}, {}", i == 0 ? "" : "; ", readers[i].name,
                         Depth(readers[i], comparison.sets[i].layer));
  }
  about += ", counted from 0";
  if (!asked.layer) about += ": where heads differ most here";
  if (!SameTokens(comparison)) {
    about +=
        ". Their tokenizers cut the sentence differently, so that each is "
        "drawn by tokens of its own";
  }
  return about + ".";
}

std::string CommandOf(const Comparison& comparison,
                      const TrainedComparison& asked, bool one_layer) {
  std::string command;
  if (asked.named) {
    for (const fs::path& folder : asked.models) {
      command += "--model " + folder.string() + " ";
    }
  }
  if (one_layer) {
    command += fmt::format("--layer {}", comparison.sets.back().layer);
  }
  return command;
}

}  // namespace

Comparison CompareTrained(Context& context, std::string_view sentence,
                          const TrainedComparison& asked) {
  const std::vector<Reader> readers = ReadAll(sentence, asked);
  std::vector<std::vector<ComparedHeads>> layers;
  for (const Reader& reader : readers) {
    ThrowIfStopped(asked.stop, "compare");
    layers.push_back(ReadLayers(context, reader));
  }
  const bool one_layer = asked.layer || EquallyDeep(readers);
  Comparison comparison;
  comparison.sentence = sentence;
  comparison.trained = true;
  for (size_t i = 0; i < readers.size(); ++i) {
    const int64_t layer = asked.layer ? *asked.layer
                          : one_layer ? MostDistinct(layers.back())
                                      : MostDistinct(layers[i]);
    ComparedHeads set = layers[i][layer];
    if (set.heads == 0) {
      RefuseComparison(
          "a layer that has heads",
          fmt::format("layer {} of {} without any", layer, readers[i].name));
    }
    ThrowIfStopped(asked.stop, "compare");
    if (asked.named) set.model = readers[i].name;
    if (asked.roles) set.roles = RolesIn(context, readers[i], layer, asked);
    AddSet(std::move(set), comparison);
  }
  comparison.about = About(readers, comparison, asked);
  comparison.command = CommandOf(comparison, asked, one_layer);
  return comparison;
}

}  // namespace headwise

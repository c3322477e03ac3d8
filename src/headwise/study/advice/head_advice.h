// How many heads to begin with, for a model of given width, depth and length
// of text: `headwise study effective-heads --recommend`. Rests on what was
// measured (head_sweeps.h) near that width, and says where nothing was.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/study/advice/head_sweeps.h"

namespace headwise {

struct ModelSize {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t tokens = 0;  // of a sequence
};

enum class AdviceBasis : uint8_t {
  kMeasured,    // here, within a factor of two of the width
  kPublished,   // the same, by others
  kConvention,  // what models of this size are built with
};
// "measured", "published", "convention"
const char* Name(AdviceBasis basis);

struct HeadAdvice {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t kv_heads = 0;    // that keep keys and values
  double cache_bytes = 0;  // of them, all layers and tokens, in bf16
  double map_bytes = 0;    // of one layer's attention, if it were kept, in f32
  AdviceBasis basis = AdviceBasis::kConvention;
  const HeadSweep* sweep = nullptr;  // what was measured; null: nothing
  std::string reason;
};

// "768,12,1024". Throws Error(kInvalidArgument).
ModelSize ParseModelSize(const std::string& text);

// Throws Error(kInvalidArgument) for sizes below 1.
HeadAdvice RecommendHeads(const ModelSize& size);

}  // namespace headwise

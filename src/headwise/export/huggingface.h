// A model as Hugging Face's transformers reads it, with no code of ours: the
// folder's own files, and where heads were pruned a configuration of the
// nearest architecture that takes their number.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "headwise/context.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/checkpoint.h"

namespace headwise {

struct HuggingFaceOptions {
  std::filesystem::path out;
  bool twin = false;          // zeros in the place of heads that left
  std::optional<DType> type;  // of the weights; nothing: as stored
  Replace replace = Replace::kRefused;
};

// Returns the model_type that was written. Throws Error(kUnsupported) where no
// architecture takes the model: layers that differ in their heads, a family
// whose heads have the width that their number leaves, a bias where none has
// one; and as WriteChanged does.
std::string ExportHuggingFace(Context& context, const Checkpoint& checkpoint,
                              const HuggingFaceOptions& options);

}  // namespace headwise

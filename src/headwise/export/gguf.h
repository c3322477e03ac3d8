// A model as llama.cpp reads it: one GGUF file with weights and tokenizer. The
// architecture is `llama` where all layers have the same heads, `deci` where
// they differ, `qwen3` for models with norms on queries and keys.
#pragma once

#include <string>

#include "headwise/context.h"
#include "headwise/export_model.h"
#include "headwise/format/gguf.h"
#include "headwise/model/checkpoint.h"

namespace headwise {

// Returns the architecture. Throws Error(kUnsupported) for models that
// llama.cpp would not run as we do, and for tokenizers that it does not know.
std::string ExportGguf(Context& context, const Checkpoint& checkpoint,
                       const ExportJob& job);

// The tokenizer of a folder in llama.cpp's words (tokenizer.ggml.*), for an
// embedding of `vocabulary` rows. Throws Error(kUnsupported).
void AddGgufTokenizer(const Checkpoint& checkpoint, GgufWriter& writer);

}  // namespace headwise

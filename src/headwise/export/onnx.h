// A model as ONNX Runtime and its kin read it: standard operators of opset 17,
// weights in f32 inside the file, attention over a whole text (no cache).
//
// Inputs: input_ids i64 [batch, sequence]; encoders also take attention_mask
// i64 [batch, sequence], 0 for padding. Output: logits f32 [batch, sequence,
// vocabulary], or last_hidden_state f32 [batch, sequence, width] of a model
// without a head.
#pragma once

#include <filesystem>
#include <string>

#include "headwise/context.h"
#include "headwise/model/checkpoint.h"

namespace headwise {

// Returns the family. Throws Error(kUnsupported) for encoder–decoders, models
// of 2 GiB and more (as much as one file can hold), and where the library was
// built without ONNX.
std::string ExportOnnx(Context& context, const Checkpoint& checkpoint,
                       const std::filesystem::path& out);

}  // namespace headwise

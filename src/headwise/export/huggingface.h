// A model as Hugging Face's transformers reads it, with no code of ours: the
// folder's own files, and where heads were pruned a configuration of the
// nearest architecture that takes their number.
#pragma once

#include <string>

#include "headwise/context.h"
#include "headwise/export_model.h"
#include "headwise/model/checkpoint.h"

namespace headwise {

// Returns the model_type that was written. Throws Error(kUnsupported) where no
// architecture takes the model: layers that differ in their heads, a family
// whose heads have the width that their number leaves, a bias where none has
// one; and as WriteChanged does.
std::string ExportHuggingFace(Context& context, const Checkpoint& checkpoint,
                              const ExportJob& job);

}  // namespace headwise

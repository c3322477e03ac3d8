// A model and a text as commands open them: by the flags that they share. What
// the model has to say of a text goes to standard error.
#pragma once

#include <string>
#include <string_view>

#include "headwise/base/json.h"
#include "headwise/model.h"
#include "headwise/text_input.h"
#include "run_flags.h"
#include "text_argument.h"

namespace headwise {

Transformer OpenTransformer(const std::string& folder,
                            const EngineFlags& engine,
                            const ReadingFlags& reading = {});

// One text. Throws as ReadText does for what is not there.
TextInput InputOf(const TextArgument& argument, int64_t context);

// The library's JSON of a result, with the model's folder before it.
Json WithModel(const std::string& folder, std::string_view json);

}  // namespace headwise

// The flags of a configuration, from its one list of fields (base/fields.h):
// field head_dim becomes --head-dim with the field's help and its default.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "command_line.h"

namespace headwise {

// `config` must outlive the parse.
template <typename Config>
void AddFlags(CommandLine line, Config& config) {
  Config::VisitFields(
      config, [&](const char* name, auto& value, const char* help) {
        using Value = std::remove_reference_t<decltype(value)>;
        std::string flag = std::string("--") + name;
        std::replace(flag.begin(), flag.end(), '_', '-');
        if constexpr (std::is_same_v<Value, bool>) {
          line.Flag(flag + ",!--no-" + flag.substr(2), value, help);
        } else if constexpr (requires { value.push_back({}); } &&
                             !std::is_same_v<Value, std::string>) {
          // One word, so that a positional may follow: --threads 1,2 attention.
          line.Option(flag, value, help).Commas().ShowDefault();
        } else {
          line.Option(flag, value, help).ShowDefault();
        }
      });
}

}  // namespace headwise

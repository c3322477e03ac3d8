// The flags of a configuration, from its one list of fields (base/fields.h):
// field head_dim becomes --head-dim with the field's help and its default.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>

namespace headwise {

// `config` must outlive the parse.
template <typename Config>
void AddFlags(CLI::App& app, Config& config) {
  Config::VisitFields(
      config, [&](const char* name, auto& value, const char* help) {
        using Value = std::remove_reference_t<decltype(value)>;
        std::string flag = std::string("--") + name;
        std::replace(flag.begin(), flag.end(), '_', '-');
        if constexpr (std::is_same_v<Value, bool>) {
          app.add_flag(flag + ",!--no-" + flag.substr(2), value, help);
        } else if constexpr (CLI::detail::is_mutable_container<Value>::value) {
          // One word, so that a positional may follow: --threads 1,2 attention.
          app.add_option(flag, value, help)
              ->delimiter(',')
              ->allow_extra_args(false)
              ->capture_default_str();
        } else {
          app.add_option(flag, value, help)->capture_default_str();
        }
      });
}

}  // namespace headwise

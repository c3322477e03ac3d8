// Long work that goes on where it was stopped or killed.
#pragma once

#include <filesystem>
#include <optional>

namespace headwise {

/// Where work keeps what it has, and whether it goes on from there.
struct PartialWork {
  /// Leaves when the work is whole; nothing: nothing is kept.
  std::optional<std::filesystem::path> file = {};
  double checkpoint_seconds = 60;  ///< between copies; 0: only when stopped
  /// Go on with that file, of the same model, text and job: the result is that
  /// of work that nothing interrupted, bit for bit.
  bool resume = false;
};

}  // namespace headwise

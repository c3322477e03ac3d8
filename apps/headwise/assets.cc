// Finds what ships with the program. Door: assets.h.
#include "assets.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include "headwise/error.h"

namespace headwise {

std::filesystem::path Asset(const std::filesystem::path& name) {
  std::vector<std::filesystem::path> places;
  if (const char* given = std::getenv("HEADWISE_ASSETS"); given != nullptr) {
    places.emplace_back(given);
  } else {
    std::error_code none;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
    if (!none) {
      places.push_back(program.parent_path().parent_path() / "share/headwise");
    }
    places.emplace_back(HEADWISE_ASSETS_SOURCE);
  }
  std::string looked;
  for (const std::filesystem::path& place : places) {
    std::error_code none;
    if (std::filesystem::exists(place / name, none)) return place / name;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw Error(ErrorCode::kNotFound,
              {"assets", name.string() + " in " + looked, "none",
               "set HEADWISE_ASSETS to the assets folder of a checkout"});
}

}  // namespace headwise

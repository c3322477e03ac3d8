// The page that reports are written into: web/ as it was built, or plain.html
// where it could not be. Defined by a source that cmake/embed.cmake makes.
#pragma once

#include <string_view>

namespace headwise {

// HTML with two places to fill: the JSON of <script id="report"> and the
// comment <!--plain-->.
std::string_view PageTemplate();

}  // namespace headwise

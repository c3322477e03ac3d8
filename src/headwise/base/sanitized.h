// Whether the library is built with sanitizers: for limits and tests that count
// time or memory. A function, since tests are compiled once for the library as
// it ships and for the sanitized one.
#pragma once

namespace headwise {

bool IsSanitized();

}  // namespace headwise

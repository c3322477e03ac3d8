# The page of `headwise report`: built from web/ with Node where Node and the
# npm packages can be had, else plain tables (web/plain.html). Either way it is
# embedded in the library, so the program needs no file beside it.
set(HEADWISE_PAGE_FOLDER "${PROJECT_BINARY_DIR}/page" CACHE PATH
    "Where the page is built; presets share one")

find_program(HEADWISE_NODE node)
find_program(HEADWISE_NPM npm)
if(NOT HEADWISE_WEB_PAGE)
  message(STATUS "The report's page: plain tables (HEADWISE_WEB_PAGE=OFF)")
elseif(NOT HEADWISE_NODE OR NOT HEADWISE_NPM)
  message(STATUS "The report's page: plain tables (no node or npm found)")
endif()

file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/web/src/*")
list(APPEND page_sources
  "${PROJECT_SOURCE_DIR}/web/.npmrc"
  "${PROJECT_SOURCE_DIR}/web/package.json"
  "${PROJECT_SOURCE_DIR}/web/package-lock.json"
  "${PROJECT_SOURCE_DIR}/web/plain.html"
  "${PROJECT_SOURCE_DIR}/web/report.html"
  "${PROJECT_SOURCE_DIR}/web/tsconfig.json"
  "${PROJECT_SOURCE_DIR}/web/vite.config.js")

# Adds the embedded page to a layer; call it in the layer's folder.
function(headwise_page layer)
  set(source "${PROJECT_BINARY_DIR}/page_template.cc")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}"
      "-DWEB=${PROJECT_SOURCE_DIR}/web"
      "-DFOLDER=${HEADWISE_PAGE_FOLDER}"
      "-DENABLED=${HEADWISE_WEB_PAGE}"
      "-DNODE=${HEADWISE_NODE}" "-DNPM=${HEADWISE_NPM}"
      "-DOUTPUT=${PROJECT_BINARY_DIR}/page.html"
      -P "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
    COMMAND "${CMAKE_COMMAND}"
      "-DINPUT=${PROJECT_BINARY_DIR}/page.html"
      "-DOUTPUT=${source}"
      "-DHEADER=headwise/report/page_template.h"
      "-DFUNCTION=PageTemplate"
      -P "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS ${page_sources}
      "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
      "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
    COMMENT "Building the report's page"
    VERBATIM)
  headwise_sources(${layer} "${source}")
  headwise_alone("${source}")
endfunction()

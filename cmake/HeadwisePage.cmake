# What drawings and pages look like, embedded in the library, so that the program
# needs no file beside it: web/drawing.css; web/plain.html, which holds what needs
# no script; and the pages of `headwise report` and `headwise atlas`, built from
# web/ with Node where Node and the npm packages can be had, else the plain one.
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
  "${PROJECT_SOURCE_DIR}/web/atlas.html"
  "${PROJECT_SOURCE_DIR}/web/report.html"
  "${PROJECT_SOURCE_DIR}/web/tsconfig.json"
  "${PROJECT_SOURCE_DIR}/web/build.mjs")

set(drawing_style "${PROJECT_SOURCE_DIR}/web/drawing.css")
set(plain_page "${PROJECT_BINARY_DIR}/plain.html")
file(READ "${drawing_style}" HEADWISE_DRAWING_STYLE)
configure_file("${PROJECT_SOURCE_DIR}/web/plain.html" "${plain_page}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${drawing_style}")

# headwise_embed(LAYER FILE FUNCTION HEADER): FUNCTION() of HEADER gives the
# bytes of FILE. Call it in the layer's folder.
function(headwise_embed layer file function header)
  set(source "${PROJECT_BINARY_DIR}/${function}.cc")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${file}" "-DOUTPUT=${source}"
      "-DHEADER=${header}" "-DFUNCTION=${function}"
      -P "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS "${file}" "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
    VERBATIM)
  headwise_sources(${layer} "${source}")
  headwise_alone("${source}")
endfunction()

# Adds the pages of reports and atlases to a layer; call it in the layer's
# folder.
function(headwise_pages layer)
  set(report "${PROJECT_BINARY_DIR}/page.html")
  set(atlas "${PROJECT_BINARY_DIR}/atlas.html")
  add_custom_command(
    OUTPUT "${report}" "${atlas}"
    COMMAND "${CMAKE_COMMAND}"
      "-DWEB=${PROJECT_SOURCE_DIR}/web"
      "-DPLAIN=${plain_page}"
      "-DFOLDER=${HEADWISE_PAGE_FOLDER}"
      "-DENABLED=${HEADWISE_WEB_PAGE}"
      "-DNODE=${HEADWISE_NODE}" "-DNPM=${HEADWISE_NPM}"
      "-DREPORT=${report}" "-DATLAS=${atlas}"
      -P "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
    DEPENDS ${page_sources} "${plain_page}"
      "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
    COMMENT "Building the pages of reports and atlases"
    VERBATIM)
  headwise_embed(${layer} "${report}" PageTemplate
                 headwise/report/html_report.h)
  headwise_embed(${layer} "${atlas}" AtlasTemplate
                 headwise/report/atlas_files.h)
endfunction()

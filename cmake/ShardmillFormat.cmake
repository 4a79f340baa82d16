# SPDX-License-Identifier: Apache-2.0

# shardmill_add_format(NAME SOURCES a.cc ... DEPS ...)
#
# Adds a storage format to shardmill::formats. The calling folder is formats/NAME; it defines
# `const Format& NAME_format()` in namespace shardmill. The registry's table is generated from
# these calls (static registrars would be dropped from a static library). Its byte layout must be
# documented in docs/formats/NAME.md, or configuration stops.
function(shardmill_add_format name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/docs/formats/${name}.md)
    message(FATAL_ERROR "docs/formats/${name}.md is missing: document the byte layout of '${name}'")
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(shardmill_formats PRIVATE ${ARG_SOURCES})
  target_link_libraries(shardmill_formats PRIVATE ${ARG_DEPS})
  set_property(GLOBAL APPEND PROPERTY SHARDMILL_FORMATS ${name})
endfunction()

# Generates registry.cc from registry.cc.in. Called after the last shardmill_add_format().
function(shardmill_generate_registry)
  get_property(names GLOBAL PROPERTY SHARDMILL_FORMATS)
  list(SORT names)
  foreach(name IN LISTS names)
    string(APPEND SHARDMILL_FORMAT_DECLARATIONS "const Format& ${name}_format();\n")
    string(APPEND SHARDMILL_FORMAT_TABLE "      &${name}_format(),\n")
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/formats/registry.cc.in
                 ${PROJECT_BINARY_DIR}/generated/registry.cc @ONLY)
  target_sources(shardmill_formats PRIVATE ${PROJECT_BINARY_DIR}/generated/registry.cc)
endfunction()

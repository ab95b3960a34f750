// From a file:// page a browser refuses the fetch that fills the summaries of search results.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

"""The images that the learners see (figure 5)."""

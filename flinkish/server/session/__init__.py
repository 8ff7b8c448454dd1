"""Session mode: the Dispatcher, which starts a driver process for each job and answers for all of them."""
